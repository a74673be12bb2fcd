"""Problems of models: what triggers them, what does not, and what they say; and the order of all problems."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import Metric
from leadline.evaluators.data import Severity
from leadline.tasks.analyse.findings.flip_problems import MOST_FLIPS
from leadline.tasks.analyse.findings.severity import how_bad
from tests.support.stores.problem_factory import even, of_type, problems
from tests.support.stores.run_factory import BOARD, VALUE, Basis, Given, Toy, answer, board_scores

LOWER = Metric("lower", "Lower", higher_is_better=False, threshold=0.5, primary=True)


# Thresholds


def test_a_run_without_fault_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, scores=even(10, 0.9)) == []


def test_a_mean_below_the_threshold_is_a_problem_of_that_model_only(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, scores=even(10, 0.6) + even(10, 0.9, "b"))
    assert problem["type"] == "accuracy"
    assert problem["severity"] == "medium"
    assert problem["instrument"] is False
    assert "Evaluated model a failed to satisfy the threshold 0.75 for metric 'Value'" in problem["description"]
    assert "average score 0.6 (95 % interval 0.4419 to 0.7041, 10 answers)" in problem["description"]
    assert "Answers that miss it: 10 of 10." in problem["description"]
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
        (0.375, 0.75, True, (0, 1), Severity.HIGH),
        (0.38, 0.75, True, (0, 1), Severity.MEDIUM),
        (0.88, 0.75, False, (0, 1), Severity.HIGH),
        (0.875, 0.75, False, (0, 1), Severity.HIGH),
        (0.87, 0.75, False, (0, 1), Severity.MEDIUM),
        (0.6, 0.2, False, (0, 1), Severity.HIGH),
        (0.9, 0.5, False, (0, math.inf), Severity.MEDIUM),
        (1.0, 0.5, False, (0, math.inf), Severity.HIGH),
        (1.1, 0.5, False, (0, math.inf), Severity.HIGH),
        (-4.0, -2.0, True, (-math.inf, 0), Severity.HIGH),
        (-3.9, -2.0, True, (-math.inf, 0), Severity.MEDIUM),
        (0.5, math.inf, True, (0, 1), Severity.MEDIUM),
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


@pytest.mark.parametrize(
    ("evaluator", "code"),
    [("sexism", "E0100"), ("toxicity", "E0300"), ("toxicity#strict", "E0300"), ("valor.toxicity", "E0300")],
)
def test_toxicity_is_no_bias(tmp_path: Path, evaluator: str, code: str) -> None:
    scores = [Given(f"c{i}", "a", 0.9, "lower", evaluator) for i in range(4)]
    toy = Toy(evaluator, metrics=(LOWER,), family="fairness")
    (problem,) = [one for one in problems(tmp_path, scores=scores, evaluators=[toy]) if not one["instrument"]]
    assert problem["attrs"]["avid_problem_code"] == code


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
    monkeypatch.setattr("leadline.tasks.analyse.findings.flip_problems.MOST_FLIPS_IN_RUN", 6)
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
    assert problem["attrs"]["avid_problem_code"] == "P0100"
    assert "Improve the retrieval" in problem["actions"]


def test_a_leak_that_only_the_context_holds_is_a_matter_of_privacy_not_of_luck(tmp_path: Path) -> None:
    scores = board_scores("c0", "a", generation=False, retrieval=True)
    toy = Toy(metrics=BOARD, leaderboard="bool", family="privacy")
    (problem,) = of_type(problems(tmp_path, scores=scores, evaluators=[toy]), "retrieval")
    assert problem["attrs"]["avid_problem_code"] == "P0300"
    assert "keep such data out of the documents" in problem["actions"]
    assert "luck" not in problem["actions"]


def test_a_retrieval_failure_that_the_evaluator_also_flags_is_told_once(tmp_path: Path) -> None:
    scores = board_scores("c0", "a", generation=False, retrieval=True)
    flag = {"type": "retrieval", "severity": "medium", "message": "The retrieved context did not satisfy it."}
    made = {"scores": scores, "evidence": [Basis("c0", "a", flags=[flag])]}
    board = problems(tmp_path / "1", evaluators=[Toy(metrics=BOARD, leaderboard="bool")], **made)
    (problem,) = of_type(board, "retrieval")
    assert "fails the check although the answer passes" in problem["description"]
    plain = {"scores": [Given("c0", "a", 1.0)], "evidence": made["evidence"]}
    (flagged,) = of_type(problems(tmp_path / "2", **plain), "retrieval")
    assert "did not satisfy" in flagged["description"]


def test_contexts_that_pass_or_fail_with_the_answer_are_no_retrieval_problem(tmp_path: Path) -> None:
    scores = board_scores("c0", "a", generation=True, retrieval=True) + board_scores("c1", "a", generation=False)
    toy = Toy(metrics=BOARD, leaderboard="bool")
    assert of_type(problems(tmp_path, scores=scores, evaluators=[toy]), "retrieval") == []


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
