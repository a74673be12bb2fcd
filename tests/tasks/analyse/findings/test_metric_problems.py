"""Problems by policy: failing rows of *must* metrics, missed thresholds of *should* metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.policy.policy import Role, Rule
from tests.support.stores.problem_factory import GROUPED, problems
from tests.support.stores.run_factory import BOARD, Basis, Given, Toy, answer

MUST = Rule(role=Role.MUST, threshold=1.0, weight=100)
LEAKS = Toy("leaks", metrics=BOARD, leaderboard="bool", family="privacy", rule=MUST, thresholds={"passes": 1.0})


def board(failing: int, rows: int, model: str = "a") -> list[Given]:
    return [
        Given(f"c{i}", model, float(i >= failing), metric="passes", evaluator="leaks") for i in range(rows)
    ]  # fmt: skip


def found(folder: Path, toy: Toy, scores: list[Given], **made: Any) -> list[dict[str, Any]]:
    return [
        problem
        for problem in problems(folder, policy=GROUPED, evaluators=[toy], scores=scores, **made)
        if problem["fault"] == "model"
    ]


def test_one_failing_row_of_a_must_metric_is_a_high_problem_that_names_case_rule_and_place(tmp_path: Path) -> None:
    evidence = {
        "message": "The answer contains a social security number.",
        "spans": [{"source": "actual_answer", "start": 3, "end": 14, "note": "us_ssn"}],
    }
    basis = [Basis("c0", "a", evaluator="leaks", evidence=evidence)]
    rows = [answer(f"c{i}", "a", answer="is 512-44-1000") for i in range(40)]
    (problem,) = found(tmp_path, LEAKS, board(1, 40), rows=rows, evidence=basis)
    assert (problem["severity"], problem["kind"], problem["harm"]) == ("high", "failing_rows", 2.5)
    assert "a: 1 of 40 answers fails Leaks (none may)." in problem["description"]
    assert "Case c0: The answer contains a social security number." in problem["description"]
    assert "512-44" not in problem["description"], "the secret itself is not repeated"


@pytest.mark.parametrize(
    ("rule", "failing", "severity"),
    [
        (Rule(role=Role.MUST), 1, "high"),
        (Rule(role=Role.MUST, tolerance_rows=2), 2, "low"),
        (Rule(role=Role.MUST, tolerance_rows=2), 3, "high"),
        (Rule(role=Role.MUST, tolerance_share=0.05), 2, "low"),
        (Rule(role=Role.MUST, min_rows=41), 3, "medium"),
    ],
)
def test_tolerance_and_least_rows_decide_the_severity(tmp_path: Path, rule: Rule, failing: int, severity: str) -> None:
    toy = Toy("leaks", metrics=BOARD, leaderboard="bool", rule=rule, thresholds={"passes": 1.0})
    (problem,) = found(tmp_path, toy, board(failing, 40))
    assert problem["severity"] == severity


def test_no_failing_row_is_no_problem(tmp_path: Path) -> None:
    assert found(tmp_path, LEAKS, board(0, 40)) == []


@pytest.mark.parametrize(
    ("value", "role", "severity"),
    [
        (0.2, Role.SHOULD, ["high"]),
        (0.745, Role.SHOULD, ["medium"]),  # its interval contains the threshold
        (0.76, Role.SHOULD, ["low"]),  # half of the rows fail: they are listed
        (0.9, Role.SHOULD, []),
        (0.2, Role.INFORMATION, []),
    ],
)
def test_a_should_metric_is_a_high_problem_only_where_it_surely_misses(
    tmp_path: Path, value: float, role: Role, severity: list[str]
) -> None:
    scores = [Given(f"c{i}", "a", value + (0.1 if i % 2 else -0.1)) for i in range(30)]
    assert [problem["severity"] for problem in found(tmp_path, Toy(rule=Rule(role=role)), scores)] == severity


def test_too_few_rows_of_a_should_metric_are_no_high_problem(tmp_path: Path) -> None:
    scores = [Given(f"c{i}", "a", 0.2 + i / 100) for i in range(10)]
    (problem,) = found(tmp_path, Toy(rule=Rule(min_rows=20)), scores)
    assert problem["severity"] == "medium"
    assert "the policy asks for 20" in problem["description"]


def test_missed_metrics_of_one_family_are_one_problem_for_each_model(tmp_path: Path) -> None:
    toys = [Toy("one"), Toy("two"), Toy("other", family="retrieval")]
    scores = [
        Given(f"c{i}", model, 0.2 + i / 100, evaluator=toy.id) for toy in toys for model in ("a", "b") for i in range(9)
    ]
    listed = [p for p in problems(tmp_path, policy=GROUPED, evaluators=toys, scores=scores) if p["fault"] == "model"]
    assert len(listed) == 4
    assert sum("Likewise: Value (" in problem["description"] for problem in listed) == 2


def test_worse_harm_comes_first(tmp_path: Path) -> None:
    toys = [Toy("aaa", rule=Rule(weight=1)), Toy("zzz", family="privacy", rule=Rule(role=Role.MUST, weight=100))]
    scores = [Given(f"c{i}", "a", 0.1 + i / 100, evaluator="aaa") for i in range(20)]
    scores += [Given(f"c{i}", "a", 0.9 if i else 0.0, evaluator="zzz") for i in range(20)]
    listed = [p for p in problems(tmp_path, policy=GROUPED, evaluators=toys, scores=scores) if p["fault"] == "model"]
    assert [problem["kind"] for problem in listed] == ["failing_rows", "missed_threshold"]
