"""Classification equals scikit-learn, and finds labels in what models write."""

import json
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.classification.labels import Classification, ClassificationParams
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row, RowField
from leadline.evaluators.ground import UsageError

TOOLS = EvalContext()
PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcz")), min_size=1, max_size=30)


def evaluate(pairs, **parameters):
    rows = [
        Row(
            str(number),
            "model",
            expected_answers=(expected,) if isinstance(expected, str) else expected,
            actual_answer=a,
        )
        for number, (expected, a) in enumerate(pairs)
    ]
    return Classification(ClassificationParams(**parameters)).score(rows, TOOLS)


def counted(scores):
    counts = Counter(json.dumps(score.payload) for score in scores)
    return [json.loads(payload) for payload in counts], np.array([list(counts.values())], dtype=float)


def accuracy(expected, answer, **parameters):
    return evaluate([(expected, answer)], **parameters)[0].values["accuracy"]


def averages(pairs, **parameters):
    payloads, counts = counted(evaluate(pairs, **parameters))
    found = Classification(ClassificationParams(**parameters)).aggregate(payloads, counts)
    return [float(found[name][0]) for name in ("precision", "recall", "f1")]


def details(pairs, **parameters):
    payloads, counts = counted(evaluate(pairs, **parameters))
    return Classification(ClassificationParams(**parameters)).details(payloads, counts[0], ["a case"] * len(payloads))


def matrix(found):
    (confusion,) = found["confusion"]
    return confusion["expected"], confusion["predicted"], confusion["counts"]


def by_scikit_learn(pairs, **parameters):
    from sklearn.metrics import precision_recall_fscore_support

    expected, actual = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(precision_recall_fscore_support(expected, actual, zero_division=0, **parameters)[:3])


@settings(max_examples=200, deadline=None)
@given(PAIRS, st.sampled_from(["macro", "micro", "weighted"]), st.sampled_from([(), ("a", "b"), ("a", "b", "c", "d")]))
def test_averages_equal_scikit_learn(pairs, average, labels):
    reference = by_scikit_learn(pairs, average=average, labels=list(labels) or None)
    assert averages(pairs, average=average, labels=labels) == pytest.approx(reference, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_binary_takes_the_positive_label_against_the_rest(pairs):
    reference = by_scikit_learn([(a == "a", b == "a") for a, b in pairs], average="binary")
    assert averages(pairs, average="binary", positive_label="A") == pytest.approx(reference, abs=1e-12)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_accuracy_and_confusion_matrix_equal_scikit_learn(pairs):
    from sklearn.metrics import accuracy_score, confusion_matrix

    scores = evaluate(pairs)
    expected, actual = zip(*pairs, strict=True)
    mean = sum(score.values["accuracy"] for score in scores) / len(scores)
    assert mean == pytest.approx(accuracy_score(expected, actual))
    lines, columns, counts = matrix(details(pairs))
    assert set(lines) == set(expected)
    assert set(columns) == set(expected) | set(actual)
    reference = confusion_matrix(expected, actual, labels=columns).tolist()
    assert counts == [reference[columns.index(line)] for line in lines]


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.sampled_from(["macro", "micro", "weighted"]), st.sampled_from([(), ("a", "b"), ("a", "b", "c", "d")]))
def test_the_values_of_each_label_equal_scikit_learn(pairs, average, labels):
    whole, *each = details(pairs, average=average, labels=labels)["labels"]
    assert [whole["values"][name] for name in ("precision", "recall", "f1")] == averages(
        pairs, average=average, labels=labels
    )
    assert whole["values"]["items"] == len(pairs)
    names = [line["value"] for line in each]
    assert set(names) == set(labels or {label for pair in pairs for label in pair})
    reference = by_scikit_learn(pairs, average=None, labels=names)
    for place, line in enumerate(each):
        values = [line["values"][name] for name in ("precision", "recall", "f1")]
        assert values == pytest.approx([column[place] for column in reference], abs=1e-12)
        assert line["values"]["items"] == sum(expected == line["value"] for expected, _ in pairs)
        assert line["values"]["answers"] == sum(actual == line["value"] for _, actual in pairs)


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.integers(0, 2**32 - 1), st.sampled_from(["macro", "micro", "weighted"]))
def test_resamples_are_aggregated_as_if_each_were_the_dataset(pairs, seed, average):
    payloads, counts = counted(evaluate(pairs))
    weights = np.random.default_rng(seed).poisson(counts, size=(5, counts.shape[1])).astype(float)
    found = Classification(ClassificationParams(average=average)).aggregate(payloads, weights)
    for number, resample in enumerate(weights):
        rows = [(p["expected"], p["actual"]) for p, n in zip(payloads, resample, strict=True) for _ in range(int(n))]
        reference = by_scikit_learn(rows, average=average) if rows else [0.0, 0.0, 0.0]
        assert [found[name][number] for name in ("precision", "recall", "f1")] == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize("answer", ["spam", "Spam", " SPAM.\n", "spam!", "spam ."])
def test_case_white_space_and_punctuation_behind_do_not_matter(answer):
    assert accuracy("spam", answer) == 1.0


@pytest.mark.parametrize("answer", ["ham", "", "not spam", "The answer is: spam.", "spam spam"])
def test_anything_else_is_another_label(answer):
    assert accuracy("spam", answer) == 0.0


def test_a_label_of_punctuation_alone_is_kept():
    assert accuracy("?", "?") == 1.0
    assert accuracy("?", "!") == 0.0


def test_case_and_decoration_count_on_request():
    assert accuracy("Spam", "spam", case_sensitive=True) == 0.0
    assert accuracy("spam", "spam.", strip=False) == 0.0


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("The answer is: spam.", True),
        ("**Spam**, clearly.", True),
        ("spam", True),
        ("This is not spam.", False),
        ("spam or ham? I think spam", False),
        ("spammer", False),
        ("I cannot say.", False),
        ("", False),
    ],
)
def test_exactly_one_label_is_found_in_prose(answer, right):
    found = accuracy("spam", answer, labels=("spam", "ham", "not spam"), match="contains")
    assert found == float(right)


def test_labels_are_found_where_a_script_has_no_spaces():
    assert accuracy("垃圾", "这是垃圾邮件", labels=("垃圾", "正常"), match="contains") == 1.0


def test_an_answer_outside_the_labels_is_other_in_the_confusion_matrix():
    scores = evaluate([("yes", "maybe"), ("yes", "yes"), ("no", "yes and no")], labels=("yes", "no"), match="contains")
    payloads, counts = counted(scores)
    found = Classification(ClassificationParams(labels=("yes", "no"))).details(payloads, counts[0], ["c"] * 3)
    assert matrix(found) == (["yes", "no"], ["yes", "no", "(other)"], [[1, 0, 1], [0, 0, 1]])
    assert scores[0].evidence.message == "The answer names none of the labels."
    assert scores[2].evidence.message == "The answer names 2 labels, not one."


def test_rare_labels_stand_together_in_the_confusion_matrix():
    pairs = [(f"l{n:02}", f"l{n:02}") for n in range(60) for _ in range(60 - n)] + [("l00", "x"), ("l59", "l58")]
    lines, columns, counts = matrix(details(pairs))
    assert lines == columns == [f"l{n:02}" for n in range(50)] + ["(other labels)"]
    assert counts[0] == [60, *[0] * 49, 1], "an answer that is never expected is a rare one"
    assert counts[50] == [*[0] * 50, sum(range(1, 11)) + 1]


def test_labels_that_hardly_repeat_have_no_table():
    assert details([(f"l{n}", "x") for n in range(21)]) is None
    assert details([(f"l{n}", "x") for n in range(20)]) is not None
    assert details([(f"l{n}", "x") for n in range(21)] * 2) is not None


def test_an_empty_answer_is_no_line_of_the_whole():
    whole, *each = details([("a", "a"), ("a", "")])["labels"]
    assert whole["value"] == ""
    assert [line["value"] for line in each] == ["a", "(empty)"]


def test_no_label_looks_like_what_stands_for_several() -> None:
    found = details([("a", "(other)"), ("(empty)", ""), ("(other labels)", "a")])
    _, columns, _ = matrix(found)
    assert len(set(columns)) == len(columns)
    assert {'"(other)"', '"(empty)"', "(empty)", '"(other labels)"'} <= set(columns)
    assert len({line["value"] for line in found["labels"]}) == len(found["labels"])


def test_a_row_that_was_scored_in_trials_counts_in_parts():
    payloads = [{"expected": "a", "actual": "a"}, {"expected": "a", "actual": "b"}]
    found = Classification().details(payloads, np.array([2.0, 1 / 3]), ["c", "c"])
    assert matrix(found) == (["a"], ["a", "b"], [[2, 0.333]])


def test_any_acceptable_label_is_right():
    right, wrong = evaluate([(("cat", "kitten"), "Kitten"), (("cat", "kitten"), "dog")])
    assert (right.values["accuracy"], right.payload) == (1.0, {"expected": "kitten", "actual": "kitten"})
    assert (wrong.values["accuracy"], wrong.payload) == (0.0, {"expected": "cat", "actual": "dog"})


def test_an_expected_label_outside_the_labels_is_reported():
    (score,) = evaluate([("yse", "yes")], labels=("yes", "no"))
    assert [flag.type for flag in score.flags] == ["dataset"]


def test_long_answers_stay_distinct_but_short():
    scores = evaluate([("a", "x" * 10_000 + end) for end in "12"])
    labels = {score.payload["actual"] for score in scores}
    assert len(labels) == 2
    assert max(map(len, labels)) <= 200
    assert len(scores[0].evidence.message) < 300


def test_averaging_changes_no_score_key_but_labels_do():
    plain = ClassificationParams().identity()
    assert ClassificationParams(average="binary", positive_label="a").identity() == plain
    assert ClassificationParams(labels=("a",)).identity() != plain


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"match": "contains"}, "needs the labels"),
        ({"average": "binary"}, "needs positive_label"),
        ({"average": "mean"}, r"classification\.average"),
    ],
)
def test_inconsistent_parameters_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        ClassificationParams.build("classification", values)


@pytest.mark.slow
def test_a_hundred_thousand_distinct_labels_are_aggregated():
    payloads = [{"expected": f"label {n % 10}", "actual": f"answer {n}"} for n in range(100_000)]
    found = Classification().aggregate(payloads, np.ones((100, 100_000)))
    assert found["f1"].tolist() == [0.0] * 100
    said = Classification().details(payloads, np.ones(100_000), ["c"] * 100_000)
    assert len(said["labels"]) == 2_001
    assert "2,000 most frequent of 100,010 labels" in said["notes"][0]
    _, columns, counts = matrix(said)
    assert (len(columns), len(counts)) == (51, 10)


def test_prose_is_no_label_and_not_applicable():
    (score,) = evaluate(
        [("The pilot must be ordered three hours before the ship arrives at the pilot station.", "urgent")]
    )
    assert isinstance(score.values["accuracy"], NotApplicable)
    assert score.payload is None
    (score,) = evaluate([("x" * 60, "x" * 60)], max_label_length=0)
    assert score.values["accuracy"] == 1.0


def test_only_cases_of_the_categories_asked_for_are_classified():
    evaluator = Classification(ClassificationParams(categories=("triage",)))
    rows = [
        Row("a", "m", expected_answers=("urgent",), actual_answer="urgent", categories=("triage", "other")),
        Row("b", "m", expected_answers=("urgent",), actual_answer="urgent", categories=("question",)),
    ]
    first, second = evaluator.score(rows, TOOLS)
    assert first.values["accuracy"] == 1.0
    assert isinstance(second.values["accuracy"], NotApplicable)
    assert RowField.CATEGORIES in evaluator.reads
    assert RowField.CATEGORIES not in Classification().reads


@pytest.mark.parametrize(
    ("shares", "right", "rows"),
    [((0.9, 0.1), (0.97, 0.7), 30), ((0.6, 0.3, 0.1), (0.9, 0.8, 0.6), 30), ((0.5, 0.5), (0.99, 0.99), 100)],
)
def test_intervals_cover_where_a_label_is_rare_or_hardly_an_answer_is_wrong(
    shares: tuple[float, ...], right: tuple[float, ...], rows: int
) -> None:
    evaluator = Classification()
    n = len(shares)
    pairs = [(a, b) for a in range(n) for b in range(n)]
    chances = np.array([shares[a] * (right[a] if a == b else (1 - right[a]) / (n - 1)) for a, b in pairs])
    payloads = [{"expected": str(a), "actual": str(b)} for a, b in pairs]
    truth = evaluator.aggregate(payloads, chances[np.newaxis, :])
    random, draws = np.random.default_rng(5), 400
    above, below = (dict.fromkeys(truth, 0) for _ in range(2))
    for _ in range(draws):
        counts = random.multinomial(rows, chances)
        seen = np.flatnonzero(counts)
        found = evaluator.intervals([payloads[place] for place in seen], counts[seen].astype(float), rows)
        for name, (low, high) in found.items():
            above[name] += low > truth[name][0]
            below[name] += high < truth[name][0]
    assert max(above.values()) <= 0.045 * draws, "at most 4 % a side promised, of 400 draws"
    assert max(below.values()) <= 0.045 * draws
    assert max(above[name] + below[name] for name in truth) <= 0.065 * draws


def test_a_label_that_was_answered_and_never_expected_may_only_have_been_missed_by_the_rows() -> None:
    payloads = [{"expected": "a", "actual": "a"}, {"expected": "b", "actual": "b"}, {"expected": "a", "actual": "c"}]
    low, high = Classification().intervals(payloads, np.array([18.0, 10.0, 2.0]), 30)["recall"]
    assert low < 0.6, "c is none of the labels, as the rows say"
    assert high > 0.9, "c is one of them, and its right answers were not drawn"


def test_an_interval_holds_its_value_and_grows_as_its_rows_become_fewer() -> None:
    payloads = [{"expected": "a", "actual": "a"}, {"expected": "b", "actual": "b"}, {"expected": "b", "actual": None}]
    weights = np.array([20.0, 3.0, 1.0])
    values = Classification().aggregate(payloads, weights[np.newaxis, :])
    wide = Classification().intervals(payloads, weights, 12)
    narrow = Classification().intervals(payloads, weights, 24)
    for name, (low, high) in narrow.items():
        assert low <= values[name][0] <= high
        assert wide[name][0] < low
    every = Classification().intervals(payloads[:2], weights[:2], 23)
    assert every["f1"][1] == 1
    assert every["f1"][0] < 0.85, "three right answers of a label may have been luck"


def test_more_labels_than_a_table_holds_are_resampled() -> None:
    payloads = [{"expected": str(n), "actual": str(n)} for n in range(51)]
    assert Classification().intervals(payloads, np.ones(51), 51) == {}
    assert set(Classification().intervals(payloads[:50], np.ones(50), 50)) == {"precision", "recall", "f1"}
