"""Valor's classification gives Valor's recorded numbers, and scikit-learn's where those are the standard."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.classification.valor_classification import ValorClassification
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row
from leadline.evaluators.ground import UsageError

TOOLS = EvalContext()
RECORDED = json.loads((Path(__file__).parent / "valor_core_classification.json").read_text(encoding="utf-8"))["cases"]
DETAILED = "DetailedPrecisionRecallCurve"
EXCEPTIONS = {("10 test_compute_confusion_matrix_at_label_key_using_label_map", "ROCAUC", "class")}
"""What docs/origins/valor.md lists: labels that a map makes one are one prediction here and several in Valor."""


def item(case, expected, predicted):
    """Return a row; labels are (key, value) or (key, value, score), or a value under ``class``."""

    def labels(given):
        named = [("class", one) if isinstance(one, str) else ("class", *one) if len(one) == 1 else one for one in given]
        return [dict(zip(("key", "value", "score"), one, strict=False)) for one in named]

    def side(given):
        return [{"labels": labels(given)}] if given else []

    return Row(case, "m", expected_annotations=side(expected), predicted_annotations=side(predicted))


def evaluate(rows, **parameters):
    evaluator = ValorClassification(ValorClassification.parameters.build("valor.classification", parameters))
    scores = [(row.case, score) for row, score in zip(rows, evaluator.score(rows, TOOLS), strict=True)]
    kept = [(case, score.payload) for case, score in scores if score.payload is not None]
    prepared = evaluator.prepare(json.loads(json.dumps([payload for _, payload in kept])))
    weights = np.ones(len(kept))
    metrics = {name: values[0] for name, values in evaluator.aggregate(prepared, weights[np.newaxis]).items()}
    return metrics, evaluator.details(prepared, weights, [case for case, _ in kept]), [score for _, score in scores]


def name_of(record):
    label, parameters = record.get("label"), record.get("parameters") or {}
    return record["type"], label["key"] if label else parameters["label_key"], label["value"] if label else None


def counted(curve):
    return {
        label: {
            threshold: {
                kind: {"total": found["total"], "counts": {n: o["count"] for n, o in found["observations"].items()}}
                for kind, found in points.items()
            }
            for threshold, points in thresholds.items()
        }
        for label, thresholds in curve.items()
    }


@pytest.mark.parametrize("recorded", RECORDED, ids=[case["name"] for case in RECORDED])
def test_recorded_calls_of_valor_give_the_same_numbers(recorded):
    rows = [
        item(uid, [tuple(label) for label in labels], [tuple(label) for label in recorded["predicted"].get(uid, [])])
        for uid, labels in recorded["expected"].items()
    ]
    most = recorded["pr_curve_max_examples"]
    _, details, _ = evaluate(rows, label_map=recorded["label_map"] or [], pr_curve_max_examples=most)
    ours = {name_of(record): record["value"] for record in details["records"]}
    for wanted in recorded["metrics"]:
        name = name_of(wanted)
        if (recorded["name"], name[0], name[1]) in EXCEPTIONS:
            continue
        found = counted(ours[name]) if name[0] == DETAILED else ours[name]
        if isinstance(found, dict):
            assert found.keys() == wanted["value"].keys()
            for label, thresholds in wanted["value"].items():
                for threshold, points in thresholds.items():
                    assert found[label][threshold] == (points if name[0] == DETAILED else pytest.approx(points)), name
        else:
            assert found == pytest.approx(wanted["value"]), name


@pytest.mark.parametrize("recorded", RECORDED, ids=[case["name"] for case in RECORDED])
def test_recorded_confusion_matrices_are_the_same(recorded):
    rows = [
        item(uid, [tuple(label) for label in labels], [tuple(label) for label in recorded["predicted"].get(uid, [])])
        for uid, labels in recorded["expected"].items()
    ]
    _, details, _ = evaluate(rows, label_map=recorded["label_map"] or [])
    for wanted in recorded["confusion"]:
        (found,) = [matrix for matrix in details["confusion"] if matrix["key"] == wanted["label_key"]]
        cells = {
            (expected, predicted): count
            for expected, counts in zip(found["expected"], found["counts"], strict=True)
            for predicted, count in zip(found["predicted"], counts, strict=True)
            if count and predicted != "(no prediction)"
        }
        assert cells == {(e["groundtruth"], e["prediction"]): e["count"] for e in wanted["entries"]}


TIES = [  # expected, scores of "a" (those of "b" are the rest), scikit-learn's value, Valor's
    ("abab", (0.9, 0.4, 0.7, 0.8), 0.75, 0.75),
    ("abab", (0.5, 0.5, 0.5, 0.5), 0.5, 0.0),
    ("abab", (0.9, 0.9, 0.5, 0.2), 0.625, 0.5625),
    ("ababa", (0.9, 0.6, 0.6, 0.2, 0.1), 7 / 12, 7 / 12),
    ("aa", (0.9, 0.3), 1.0, 1.0),
]


@pytest.mark.parametrize(("expected", "scores", "standard", "valor"), TIES)
def test_ties_count_as_in_scikit_learn_unless_valors_own_curve_is_asked_for(expected, scores, standard, valor):
    rows = [
        item(str(n), [label], [("class", "a", score), ("class", "b", 1 - score)])
        for n, (label, score) in enumerate(zip(expected, scores, strict=True))
    ]
    assert evaluate(rows)[0]["rocauc"] == pytest.approx(standard)
    assert evaluate(rows, valor_compat=True)[0]["rocauc"] == pytest.approx(valor)


ITEMS = st.lists(
    st.tuples(st.sampled_from("abc"), st.tuples(*[st.integers(0, 10).map(lambda n: n / 10)] * 3)),
    min_size=1,
    max_size=30,
)


@given(ITEMS)
@settings(max_examples=60, deadline=None)
def test_every_metric_equals_scikit_learn(items):
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support, roc_auc_score

    rows = [
        item(str(n), [label], [("class", name, score) for name, score in zip("abc", scores, strict=True)])
        for n, (label, scores) in enumerate(items)
    ]
    truth = [label for label, _ in items]
    best = ["abc"[int(np.argmax(scores))] for _, scores in items]
    for average in ("macro", "micro", "weighted"):
        metrics, details, _ = evaluate(rows, average=average)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = precision_recall_fscore_support(truth, best, average=average, zero_division=0)[:3]
        assert [metrics[name] for name in ("precision", "recall", "f1")] == pytest.approx(wanted)
    assert metrics["accuracy"] == pytest.approx(accuracy_score(truth, best))
    values = {line["value"]: line["values"] for line in details["labels"]}
    for position, label in enumerate("abc"):
        positive = [one == label for one in truth]
        if 0 < sum(positive) < len(positive):
            area = roc_auc_score(positive, [scores[position] for _, scores in items])
            assert values[label]["rocauc"] == pytest.approx(area, abs=1e-9)


@given(ITEMS, st.data())
@settings(max_examples=50, deadline=None)
def test_weights_count_as_repeated_items(items, data):
    evaluator = ValorClassification()
    rows = [
        item(str(n), [label], [("class", name, score) for name, score in zip("abc", scores, strict=True)])
        for n, (label, scores) in enumerate(items)
    ]
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)).filter(any))
    payloads = [score.payload for score in evaluator.score(rows, TOOLS)]
    weighted = evaluator.aggregate(evaluator.prepare(payloads), np.array([times], dtype=float))
    repeated = [payload for payload, n in zip(payloads, times, strict=True) for _ in range(n)]
    plain = evaluator.aggregate(evaluator.prepare(repeated), np.ones((1, len(repeated))))
    for name in ("accuracy", "precision", "recall", "f1"):
        assert weighted[name] == pytest.approx(plain[name]), name


def test_a_row_says_which_keys_are_wrong():
    right, wrong = [("animal", "cat", 0.9), ("color", "red", 0.8)], [("animal", "dog", 0.9), ("color", "red", 0.8)]
    expected = [("animal", "cat"), ("color", "red")]
    metrics, _, scores = evaluate([item("1", expected, right), item("2", expected, wrong), item("3", expected, [])])
    assert [score.values["accuracy"] for score in scores] == [1.0, 0.5, 0.0]
    assert scores[0].evidence.message == ""
    assert scores[1].evidence.message == "animal: expected 'cat', got 'dog' (0.9)."
    assert "nothing was predicted" in scores[2].evidence.message
    assert metrics["accuracy"] == pytest.approx((1 / 3 + 2 / 3) / 2)


def test_several_expected_labels_are_each_right():
    metrics, details, _ = evaluate([item("1", ["cat", "pet"], [("class", "pet", 0.9), ("class", "dog", 0.1)])])
    assert metrics["accuracy"] == 1.0
    assert details["confusion"][0]["expected"] == ["pet"]


def test_items_without_labels_of_the_whole_are_not_applicable():
    box = [{"labels": [{"key": "class", "value": "cat"}], "box": [0, 0, 1, 1]}]
    rows = [Row("1", "m", expected_annotations=box, predicted_annotations=box), item("2", [], [("class", "a", 1.0)])]
    for score in ValorClassification().score(rows, TOOLS):
        assert isinstance(score.values["accuracy"], NotApplicable)


def test_a_best_label_below_the_threshold_is_no_prediction():
    rows = [item("1", ["a"], [("class", "a", 0.4)]), item("2", ["a"], [("class", "a", 0.6)])]
    metrics, details, _ = evaluate(rows, score_threshold=0.5)
    assert metrics["accuracy"] == 0.5
    assert details["examples"][0]["kind"] == "no_predictions"


def test_predictions_without_a_score_count_as_certain():
    assert evaluate([item("1", ["a"], ["a"]), item("2", ["b"], ["a"])])[0]["accuracy"] == 0.5


def test_examples_are_the_surest_errors_of_each_label_and_bounded():
    rows = [item(str(n), ["a"], [("class", "b", n / 100)]) for n in range(100)]
    _, details, _ = evaluate(rows, pr_curve_max_examples=3)
    assert [(one["case"], one["kind"]) for one in details["examples"]] == [
        ("99", "misclassification"), ("98", "misclassification"), ("97", "misclassification"),
    ]  # fmt: skip
    assert not evaluate(rows, pr_curve_max_examples=0)[1]["examples"]


def test_details_of_thousands_of_labels_are_bounded():
    rows = [item(str(n), [f"label {n}"], [("class", f"label {n % 700}", 0.9)]) for n in range(1000)]
    _, details, _ = evaluate(rows)
    assert all(len(curve["series"]) <= 200 for curve in details["curves"])
    assert len(details["confusion"][0]["counts"]) <= 51
    assert len(details["examples"]) <= 60
    assert "200 most frequent of 1,000 labels" in details["notes"][0]
    assert sum(map(sum, details["confusion"][0]["counts"])) == 1000


def test_large_datasets_get_fewer_resamples():
    class Size:
        pd_pair = gt_pair = np.zeros(0)

    assert ValorClassification().resamples(Size()) == 1000
    Size.pd_pair = np.zeros(10_000_000)
    assert ValorClassification().resamples(Size()) == 100


def test_a_label_map_that_is_none_is_refused():
    with pytest.raises(UsageError, match="label_map"):
        ValorClassification.parameters.build("valor.classification", {"label_map": {"cat": 3}})
