"""Every kind of problem: what triggers it, what does not, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluators import registry
from evaluators.base import RowEvaluator, Spec
from evaluators.metrics import Metric
from evaluators.toolbox import Toolbox
from evaluators.types import Field, Row, RowScore, Severity
from tasks.aggregate import aggregate
from tasks.db import open_run
from tasks.findings.of_models import MOST_FLIPS, how_bad
from tasks.flips import find_flips
from tasks.problems import find_problems
from tests.tasks.run_factory import BOARD, VALUE, Basis, Given, Toy, answer, board_scores, make_run, table

LOWER = Metric("lower", "Lower", higher_is_better=False, threshold=0.5, primary=True)


class Needs(RowEvaluator):
    """Needs an expected answer, a context and an answer."""

    spec = Spec(
        id="test.needs",
        name="Needs",
        family="classification",
        inputs=(Field.EXPECTED_ANSWER, Field.RETRIEVED_CONTEXT, Field.ACTUAL_ANSWER),
        metrics=(VALUE,),
        problem_type="classification",
    )

    def score_row(self, row: Row, tools: Toolbox) -> RowScore:
        raise AssertionError("not asked for")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    registry.all_evaluators()
    registry.register(Needs)
    yield
    registry._registered.pop("test.needs")


def problems(folder: Path, *, counts: bool = False, **made: Any) -> list[dict[str, Any]]:
    made.setdefault("rows", [answer(g.case, g.model) for g in made.get("scores", ())])
    made["rows"] = list({(row["case"], row["model"]): row for row in made["rows"]}.values())
    store, run = make_run(folder, **made)
    with open_run(store, run) as connection:
        aggregate(connection)
        find_flips(connection)
        counted = find_problems(connection)
        found = table(connection, "problems")
        assert find_problems(connection) == counted, "a second look finds the same"
        assert table(connection, "problems") == found
    assert sum(counted.values()) == len(found)
    assert [counted[s] for s in ("high", "medium", "low")] == [
        sum(problem["severity"] == s for problem in found) for s in ("high", "medium", "low")
    ]
    assert [p["problem_id"] for p in found] == list(range(len(found)))
    assert all(problem["actions"] and problem["description"] for problem in found)
    return found


def of_type(found: Sequence[dict[str, Any]], type_: str, words: str = "") -> list[dict[str, Any]]:
    return [problem for problem in found if problem["type"] == type_ and words in problem["description"]]


def even(n: int, value: float, model: str = "a", **more: Any) -> list[Given]:
    """Return n scores around a value."""
    return [Given(f"c{i}", model, value + (0.01 if i % 2 else -0.01), **more) for i in range(n)]


# Thresholds


def test_a_run_without_fault_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, scores=even(10, 0.9)) == []


def test_a_mean_below_the_threshold_is_a_problem_of_that_model_only(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, scores=even(10, 0.6) + even(10, 0.9, "b"))
    assert problem["type"] == "accuracy"
    assert problem["severity"] == "medium"
    assert problem["instrument"] is False
    assert "Evaluated model a failed to satisfy the threshold 0.75 for metric 'Value'" in problem["description"]
    assert "average score 0.6 (95 % interval 0.5925 to 0.6075, 10 rows)" in problem["description"]
    assert "Rows that miss it: 10 of 10." in problem["description"]
    assert "How good it is." in problem["description"]
    attrs = problem["attrs"]
    assert (attrs["model_name"], attrs["metric_id"], attrs["metric_threshold"]) == ("a", "value", 0.75)
    assert attrs["metric_score"] == pytest.approx(0.6)
    assert attrs["evaluator_name"] == "Toy Evaluator"
    assert attrs["avid_problem_code"] == "P0200"
    assert len(attrs["test_case_keys"]) == len(problem["row_ids"]) == 10


def test_a_mean_on_the_threshold_is_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, scores=[Given("c0", "a", 0.5), Given("c1", "a", 1.0)]) == []


def test_the_runs_threshold_counts_not_the_default(tmp_path: Path) -> None:
    assert problems(tmp_path, scores=even(10, 0.6), evaluators=[Toy(thresholds={"value": 0.3})]) == []


def test_rows_that_fail_are_named_worst_first(tmp_path: Path) -> None:
    scores = [Given(f"c{i}", "a", v) for i, v in enumerate([0.4, 0.9, 0.1, 0.3, 0.75])]
    (problem,) = problems(tmp_path, scores=scores)
    assert problem["row_ids"] == [2, 3, 0]
    assert problem["attrs"]["test_case_keys"] == ["c2", "c3", "c0"]
    assert "may be chance" in problem["description"]


def test_lower_is_better_turns_the_comparison_around(tmp_path: Path) -> None:
    scores = [Given(f"c{i}", "a", v, "lower") for i, v in enumerate([0.5, 0.9, 1.0])]
    (problem,) = problems(tmp_path, scores=scores, evaluators=[Toy(metrics=(LOWER,))])
    assert problem["row_ids"] == [2, 1]


@pytest.mark.parametrize(
    ("value", "threshold", "higher", "range_", "expected"),
    [
        (0.37, 0.75, True, (0, 1), Severity.HIGH),
        (0.38, 0.75, True, (0, 1), Severity.MEDIUM),
        (0.88, 0.75, False, (0, 1), Severity.HIGH),
        (0.87, 0.75, False, (0, 1), Severity.MEDIUM),
        (0.9, 0.5, False, (0, math.inf), Severity.MEDIUM),
        (1.1, 0.5, False, (0, math.inf), Severity.HIGH),
        (math.inf, 0.5, False, (0, math.inf), Severity.HIGH),
        (0.1, 0.0, False, (0, math.inf), Severity.HIGH),
        (1.9, 3.0, True, (1, 5), Severity.HIGH),
        (2.1, 3.0, True, (1, 5), Severity.MEDIUM),
    ],
)
def test_severity_grows_with_the_distance_in_both_directions(value, threshold, higher, range_, expected) -> None:
    metric = {"threshold": threshold, "higher_is_better": higher, "low": range_[0], "high": range_[1]}
    assert how_bad(value, metric) == expected


def test_only_the_primary_metric_makes_a_threshold_problem(tmp_path: Path) -> None:
    second = Metric("second", "Second", higher_is_better=True, threshold=0.75)
    scores = even(10, 0.9) + even(10, 0.1, metric="second")
    assert problems(tmp_path, scores=scores, evaluators=[Toy(metrics=(VALUE, second))]) == []


def test_the_type_is_the_evaluators_and_privacy_has_its_own_code(tmp_path: Path) -> None:
    scores = even(4, 0.1, evaluator="test.needs")
    rows = [answer(f"c{i}", "a", expected=["x"], context=["x"]) for i in range(4)]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=[Toy("test.needs", family="privacy")])
    assert problem["type"] == "classification"
    assert problem["attrs"]["avid_problem_code"] == "P0300"


# Flips


def pair_run(n: int, **scored: float) -> dict[str, Any]:
    rows = [answer(f"c{i}", "a") for i in range(n)]
    rows += [answer(f"p{i}", "a", original=f"c{i}", perturbation="typo") for i in range(n)]
    scores = [Given(f"c{i}", "a", scored["before"]) for i in range(n)]
    scores += [Given(f"p{i}", "a", scored["after"]) for i in range(n)]
    return {"rows": rows, "scores": scores}


@pytest.mark.parametrize(("before", "after", "words"), [(1.0, 0.7, "passed to failed"), (0.7, 1.0, "failed to passed")])
def test_each_flipped_case_is_a_problem_in_both_directions(tmp_path: Path, before, after, words) -> None:
    flips = of_type(problems(tmp_path, **pair_run(2, before=before, after=after)), "robustness")
    assert len(flips) == 2
    assert {flip["severity"] for flip in flips} == {"high"}
    assert f"flipped from {words}" in flips[0]["description"]
    assert "(typo)" in flips[0]["description"]
    assert flips[0]["attrs"]["test_case_keys"] == ["c0", "p0"]
    assert flips[0]["attrs"]["avid_problem_code"] == "P0200"


def test_no_flip_no_problem(tmp_path: Path) -> None:
    assert of_type(problems(tmp_path, **pair_run(2, before=1.0, after=0.8)), "robustness") == []


def test_several_metrics_that_flip_on_one_case_are_one_problem(tmp_path: Path) -> None:
    second = Metric("second", "Second", higher_is_better=True, threshold=0.75)
    made = pair_run(1, before=1.0, after=0.1)
    made["scores"] += [Given(g.case, g.model, g.value, "second") for g in made["scores"]]
    (flip,) = of_type(problems(tmp_path, **made, evaluators=[Toy(metrics=(VALUE, second))]), "robustness")
    assert "Second flipped too" in flip["description"]
    assert [one["metric_id"] for one in flip["attrs"]["flips"]] == ["value", "second"]


def test_many_flips_are_summed_up(tmp_path: Path) -> None:
    n = MOST_FLIPS + 5
    flips = of_type(problems(tmp_path, **pair_run(n, before=1.0, after=0.7)), "robustness")
    assert len(flips) == MOST_FLIPS + 1
    (summary,) = [flip for flip in flips if "one by one" in flip["description"]]
    assert (
        f"flipped on {n} perturbed test cases of model a: {n} from passed to failed, 0 from" in summary["description"]
    )
    assert f"100.0 % of {n} pairs of Value" in summary["description"]
    assert len(summary["row_ids"]) == n


def test_with_many_models_fewer_flips_are_told_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.findings.of_models.MOST_FLIPS_TOLD", 6)
    one = pair_run(5, before=1.0, after=0.7)
    made = {
        "rows": [row | {"model": model} for model in "abc" for row in one["rows"]],
        "scores": [Given(g.case, model, g.value) for model in "abc" for g in one["scores"]],
    }
    flips = of_type(problems(tmp_path, **made), "robustness")
    assert len(flips) == 3 * 2 + 3


# Retrieval


def test_a_context_that_fails_where_the_answer_passes_is_a_problem(tmp_path: Path) -> None:
    scores = board_scores("c0", "a", generation=False, retrieval=True)
    scores += board_scores("c1", "a", generation=True, retrieval=True)
    for i in range(2, 9):
        scores += board_scores(f"c{i}", "a", generation=False)
    toy = Toy(metrics=BOARD, leaderboard="bool")
    (problem,) = of_type(problems(tmp_path, scores=scores, evaluators=[toy]), "retrieval")
    assert problem["severity"] == "medium"
    assert problem["instrument"] is False
    assert problem["row_ids"] == [0]
    assert problem["attrs"]["metric_id"] == "retrieval_failures"


def test_contexts_that_pass_or_fail_with_the_answer_are_no_retrieval_problem(tmp_path: Path) -> None:
    scores = board_scores("c0", "a", generation=True, retrieval=True) + board_scores("c1", "a", generation=False)
    toy = Toy(metrics=BOARD, leaderboard="bool")
    assert of_type(problems(tmp_path, scores=scores, evaluators=[toy]), "retrieval") == []


# The instrument


def test_unscored_rows_are_told_by_evaluator_and_reason(tmp_path: Path) -> None:
    scores = [*even(8, 0.9), Given("x", "a", "timeout"), Given("y", "a", "judge_unparseable"), Given("z", "b", 0.9)]
    found = of_type(problems(tmp_path, scores=scores), "evaluation")
    assert [problem["attrs"]["reason"] for problem in found] == ["judge_unparseable", "timeout"]
    assert all(problem["instrument"] for problem in found)
    assert found[0]["severity"] == "medium"
    assert found[0]["attrs"]["coverage"] == 0.8
    assert "Coverage is down to 80 %" in found[0]["description"]
    assert found[0]["attrs"]["test_case_keys"] == ["y"]


@pytest.mark.parametrize(("lost", "severity"), [(5, "low"), (6, "medium"), (20, "medium"), (21, "high")])
def test_unscored_rows_weigh_by_what_they_do_to_coverage(tmp_path: Path, lost: int, severity: str) -> None:
    scores = even(100 - lost, 0.9) + [Given(f"x{i}", "a", "timeout") for i in range(lost)]
    (problem,) = problems(tmp_path, scores=scores)
    assert problem["severity"] == severity


def test_a_missing_model_is_one_problem_for_all_evaluators_and_shows_the_command(tmp_path: Path) -> None:
    toys = [Toy("one"), Toy("two"), Toy("three")]
    messages = {
        "one": "Fetch it: leadline models fetch x",
        "two": "Fetch it: leadline models fetch x",
        "three": "other",
    }
    scores = [Given("c", "a", "model_unavailable", evaluator=id_) for id_ in messages]
    evidence = [Basis("c", "a", id_, error=message) for id_, message in messages.items()]
    found = problems(tmp_path, scores=scores, evaluators=toys, evidence=evidence)
    assert len(found) == 2
    assert "One and Two could not score 2 rows (model_unavailable)" in found[0]["description"]
    assert "leadline models fetch x" in found[0]["description"]
    assert found[0]["severity"] == "high"
    assert found[0]["evaluator_id"] is None


def test_a_crashed_evaluator_is_one_problem_not_two(tmp_path: Path) -> None:
    scores = [*even(4, 0.9), *(Given(f"c{i}", "a", "evaluator_error", evaluator="bad") for i in range(4))]
    (problem,) = problems(tmp_path, scores=scores, evaluators=[Toy(), Toy("bad", error="KeyError: 'x'")])
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("high", "evaluation", True)
    assert "KeyError: 'x'" in problem["description"]


def test_too_few_cases_are_told_only_when_asked(tmp_path: Path) -> None:
    assert problems(tmp_path / "1", scores=even(4, 0.9), evaluators=[Toy(params={"min_test_cases": 4})]) == []
    (problem,) = problems(tmp_path / "2", scores=even(4, 0.9), evaluators=[Toy(params={"min_test_cases": 5})])
    assert problem["severity"] == "high"
    assert problem["instrument"] is True
    assert problem["attrs"]["min_test_cases"] == 5


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (Metric("v", "V", higher_is_better=True, threshold=1.5, primary=True), "where no value"),
        (Metric("v", "V", higher_is_better=True, threshold=0.0, primary=True), "where every value"),
        (Metric("v", "V", higher_is_better=False, threshold=-0.1, primary=True), "where no value"),
        (Metric("v", "V", higher_is_better=False, range=(0, math.inf), threshold=math.inf), "where every value"),
        (Metric("perplexity", "P", higher_is_better=False, range=(0, math.inf), threshold=0.5), "where no value"),
    ],
)
def test_a_threshold_out_of_reach_is_noted(tmp_path: Path, metric: Metric, words: str) -> None:
    found = problems(tmp_path, scores=even(4, 0.9, metric=metric.key), evaluators=[Toy(metrics=(metric,))])
    (problem,) = [one for one in found if words in one["description"]]
    assert (problem["severity"], problem["instrument"]) == ("low", True)


def test_flags_of_rows_are_told_once_by_kind(tmp_path: Path) -> None:
    flag = {"type": "evaluation", "severity": "low", "message": "The answer is too short to be embedded."}
    leak = {"type": "privacy", "severity": "high", "message": "A key leaked."}
    scores = even(4, 0.9) + even(4, 0.9, "b")
    evidence = [Basis(f"c{i}", m, flags=[flag]) for i in range(3) for m in "ab"] + [Basis("c3", "b", flags=[leak])]
    found = problems(tmp_path, scores=scores, evidence=evidence)
    assert [problem["description"] for problem in found] == [
        "1 row of model b: A key leaked.", "6 rows: The answer is too short to be embedded."
    ]  # fmt: skip
    assert [problem["instrument"] for problem in found] == [False, True]
    assert found[1]["attrs"]["model_names"] == ["a", "b"]


# The dataset

NEEDS = [Toy("test.needs")]


def needs(case: str, model: str = "a", **fields: Any) -> dict[str, Any]:
    return answer(case, model, **{"expected": ["x"], "context": ["x"]} | fields)


def test_an_input_that_no_row_has_is_a_high_problem_that_names_the_evaluators(tmp_path: Path) -> None:
    rows = [needs(f"c{i}", expected=[]) for i in range(3)]
    scores = [Given(f"c{i}", "a", "", evaluator="test.needs") for i in range(3)]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("high", "dataset", True)
    assert problem["description"].startswith("No row has an expected answer: Test.Needs had nothing to measure.")
    assert problem["attrs"]["field"] == "expected_answer"


def test_an_input_that_some_rows_lack_is_counted_in_rows_and_cases(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", expected=[]), needs("c2"), needs("c2", "b")]
    scores = [Given(row["case"], row["model"], 0.9, evaluator="test.needs") for row in rows if row["case"] != "c1"]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert problem["severity"] == "medium"
    assert "1 of 4 rows (1 test case) have no expected answer" in problem["description"]
    assert problem["attrs"]["test_case_keys"] == ["c1"]


def test_a_plain_language_model_lacks_no_context_beside_rag_systems(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c0", "plain", context=[])]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c0", "plain", "", evaluator="test.needs")]
    assert problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS) == []


def test_a_rag_system_with_some_empty_contexts_does(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", context=[])]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c1", "a", "", evaluator="test.needs")]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert "1 of 2 rows (1 test case) have no retrieved context" in problem["description"]


def test_contexts_are_only_noted_where_no_model_is_a_rag_system(tmp_path: Path) -> None:
    rows = [needs("c0", context=[])]
    (problem,) = problems(tmp_path, rows=rows, scores=[Given("c0", "a", "", evaluator="test.needs")], evaluators=NEEDS)
    assert problem["severity"] == "low"


def test_missing_answers_are_told_apart_from_host_errors(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", answer=None), needs("c2", answer=None, error="429 Too Many Requests")]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c1", "a", "", evaluator="test.needs"),
              Given("c2", "a", "host_error", evaluator="test.needs")]  # fmt: skip
    found = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert len(found) == 2
    (missing,) = of_type(found, "dataset", "have no actual answer")
    (host,) = of_type(found, "dataset", "error of its host")
    assert missing["attrs"]["n_missing"] == 1
    assert "1 of 3 rows of model a" in host["description"]
    assert "429 Too Many Requests" in host["description"]
    assert (host["severity"], host["instrument"]) == ("high", True)


def test_an_evaluator_that_no_row_fits_for_mixed_reasons_is_told(tmp_path: Path) -> None:
    rows = [needs("c0", expected=[]), needs("c1", context=[])]
    scores = [Given(f"c{i}", "a", "", evaluator="test.needs") for i in range(2)]
    found = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    (problem,) = of_type(found, "dataset", "no row has all it needs")
    assert "(expected answer, retrieved context and actual answer)" in problem["description"]


def test_negative_costs_are_noted_once_by_model(tmp_path: Path) -> None:
    rows = [answer("c0", "a", cost_usd=-0.5), answer("c1", "a", cost_usd=0.1), answer("c0", "b", cost_usd=0.0)]
    scores = [Given(row["case"], row["model"], 0.9) for row in rows]
    (problem,) = problems(tmp_path, rows=rows, scores=scores)
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("low", "cost", True)
    assert problem["attrs"]["cost"] == -0.5


def test_models_that_took_no_part_have_no_problems(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c0", "idle", expected=[], cost_usd=-1.0, error="boom", answer=None)]
    assert problems(tmp_path, rows=rows, scores=[Given("c0", "a", 0.9, evaluator="test.needs")], evaluators=NEEDS) == []


# All of them


def test_problems_stand_worst_first_and_models_before_instruments(tmp_path: Path) -> None:
    scores = even(4, 0.1) + even(4, 0.7, "b") + [Given("x", "a", "timeout"), Given("y", "a", "timeout")]
    rows = [answer(g.case, g.model, **({"cost_usd": -1.0} if g.case == "x" else {})) for g in scores]
    found = problems(tmp_path, rows=rows, scores=scores)
    assert [(p["severity"], p["instrument"]) for p in found] == [
        ("high", False), ("high", True), ("medium", False), ("low", True),
    ]  # fmt: skip


def test_equal_problems_of_several_evaluators_are_merged(tmp_path: Path) -> None:
    flag = {"type": "evaluation", "severity": "low", "message": "Too short."}
    scores = [Given("c0", "a", 0.9, evaluator=id_) for id_ in ("one", "two")]
    evidence = [Basis("c0", "a", id_, flags=[flag]) for id_ in ("one", "two")]
    (problem,) = problems(tmp_path, scores=scores, evaluators=[Toy("one"), Toy("two")], evidence=evidence)
    assert problem["attrs"]["evaluator_names"] == ["One Evaluator", "Two Evaluator"]
    assert problem["evaluator_id"] is None


def test_hostile_texts_are_shortened_and_carried(tmp_path: Path) -> None:
    rows = [answer("c", "a", question="<script>" + "x" * 5000), answer("p", "a", question="\n\x01'\"{{", original="c")]
    (flip,) = of_type(problems(tmp_path, rows=rows, scores=[Given("c", "a", 1.0), Given("p", "a", 0.7)]), "robustness")
    assert len(flip["description"]) < 700
    assert "\n" not in flip["description"]


def test_a_run_without_evaluators_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path, rows=[answer("c", "a")], evaluators=[]) == []
