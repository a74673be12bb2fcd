"""The gate: pass, fail, inconclusive, and one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.perturbation_flips import find_flips
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db.connection import open_run
from leadline.tasks.policy.policy import Policy, Role, Rule
from tests.support.stores.problem_factory import GROUPED, SEED
from tests.support.stores.run_factory import Given, Toy, answer, make_run


def gate(
    folder: Path, values: list[float | str], *, toys: list[Toy] | None = None, policy: Policy = SEED, **how: Any
) -> Decision:
    rows = [answer(f"c{i}", "a") for i in range(len(values))] or [answer("c", "a")]
    scores = [Given(f"c{i}", "a", value) for i, value in enumerate(values)]
    store, run = make_run(folder, rows=rows, scores=scores, evaluators=toys or [Toy()])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_flips(connection)
        find_problems(connection, policy)
        decision = decide(connection, policy, **how)
    assert decision.reason.endswith(".")
    assert "\n" not in decision.reason
    return decision


GOOD: list[float | str] = [0.9] * 20
POOR: list[float | str] = [0.6] * 20  # medium
BAD: list[float | str] = [0.1] * 20  # high


@pytest.mark.parametrize(
    ("values", "fail_on", "expected"),
    [
        (GOOD, "never", "pass"),
        (GOOD, "medium", "pass"),
        (POOR, "never", "pass"),
        (POOR, "high", "pass"),
        (POOR, "medium", "fail"),
        (BAD, "high", "fail"),
        (BAD, "medium", "fail"),
        (BAD, "never", "fail"),
    ],
)
def test_problems_of_models_fail_the_gate_from_the_severity_asked_for(tmp_path, values, fail_on, expected) -> None:
    assert gate(tmp_path, values, fail_on=fail_on).gate == expected


def test_the_reason_names_the_first_problem(tmp_path: Path) -> None:
    reason = gate(tmp_path, BAD, fail_on="high").reason
    assert reason.startswith("1 problem of high severity, the first: Evaluated model a failed to satisfy the threshold")


def test_problems_of_the_instrument_never_fail_the_gate(tmp_path: Path) -> None:
    decision = gate(tmp_path, [*GOOD, *["timeout"] * 20], fail_on="medium")
    assert decision.gate == "inconclusive"
    assert decision.reason == "Toy Evaluator could score only 50 % of the rows of model a; 95 % were asked for."


@pytest.mark.parametrize(("min_coverage", "expected"), [(0.9, "pass"), (0.91, "inconclusive"), (0.0, "pass")])
def test_coverage_is_inclusive(tmp_path: Path, min_coverage: float, expected: str) -> None:
    assert gate(tmp_path, [*GOOD[:18], "timeout", "timeout"], min_coverage=min_coverage).gate == expected


def test_rows_that_are_not_applicable_are_not_missing(tmp_path: Path) -> None:
    assert gate(tmp_path, [*GOOD, *[""] * 50], fail_on="high").gate == "pass"


def test_a_failing_model_fails_even_where_coverage_is_low(tmp_path: Path) -> None:
    assert gate(tmp_path, [*BAD, *["timeout"] * 20], fail_on="high").gate == "fail"


def test_a_run_that_measured_nothing_decides_nothing(tmp_path: Path) -> None:
    assert gate(tmp_path, []) == Decision("inconclusive", "Nothing was scored.")


def test_an_evaluator_that_could_not_run_leaves_it_open(tmp_path: Path) -> None:
    decision = gate(tmp_path, GOOD, toys=[Toy(), Toy("bad", error="boom")], fail_on="high")
    assert decision == Decision("inconclusive", "1 evaluator could not run, the first: Bad Evaluator.")


SPREAD: list[float | str] = [0.9, 0.55] * 5  # mean 0.725: the interval contains the threshold 0.75


@pytest.mark.parametrize(
    ("values", "role", "expected"),
    [
        (GOOD, Role.SHOULD, "pass"),
        (BAD, Role.SHOULD, "fail"),
        (SPREAD, Role.SHOULD, "inconclusive"),
        (BAD, Role.INFORMATION, "inconclusive"),  # nothing that could have failed was measured
        ([*GOOD, 0.7], Role.MUST, "fail"),
        (GOOD, Role.MUST, "pass"),
        ([*GOOD, "timeout", "timeout"], Role.MUST, "inconclusive"),
    ],
)
def test_the_role_of_a_metric_decides(tmp_path: Path, values: list[float | str], role: Role, expected: str) -> None:
    decision = gate(tmp_path, values, toys=[Toy(rule=Rule(role=role))], policy=GROUPED, fail_on="high")
    assert decision.gate == expected, decision.reason


def test_an_uncertain_pass_is_a_pass_unless_the_policy_asks_for_certainty(tmp_path: Path) -> None:
    values: list[float | str] = [0.95, 0.6] * 5  # mean 0.775: the interval contains 0.75
    assert gate(tmp_path / "a", values, policy=GROUPED).gate == "pass"
    decision = gate(tmp_path / "b", values, policy=GROUPED.extended({}, certain=True))
    assert decision.gate == "inconclusive"
    assert "Value of model a is 0.775 against a threshold of 0.75, which 10 rows cannot decide." in decision.reason


def test_few_verdicts_of_a_judge_do_not_fail_the_gate(tmp_path: Path) -> None:
    toy = Toy(rule=Rule(min_rows=20), judged=True)
    assert gate(tmp_path / "few", BAD[:10], toys=[toy], policy=GROUPED).gate == "inconclusive"
    assert gate(tmp_path / "enough", BAD, toys=[toy], policy=GROUPED).gate == "fail"


@pytest.mark.parametrize("policy", [SEED, GROUPED])
def test_a_named_evaluator_that_measured_nothing_keeps_the_gate_from_passing(tmp_path: Path, policy: Policy) -> None:
    toys = [Toy(), Toy("silent", named=True)]
    decision = gate(tmp_path, GOOD, toys=toys, policy=policy)
    assert decision == Decision("inconclusive", "silent was asked for by name and measured nothing.")
    assert gate(tmp_path / "unnamed", GOOD, toys=[Toy(), Toy("silent")], policy=policy).gate == "pass"


@pytest.mark.parametrize("column", ["category", "nowhere"])
def test_a_slice_of_the_policy_that_cannot_be_told_leaves_it_open(tmp_path: Path, column: str) -> None:
    toy = Toy(rule=Rule(slices=(column,), min_rows=5))
    rows = [answer(f"c{i}", "a", categories=["few" if i < 4 else "many"]) for i in range(40)]
    scores = [Given(f"c{i}", "a", 0.7 if i < 4 else 0.95) for i in range(40)]
    store, run = make_run(tmp_path, rows=rows, scores=scores, evaluators=[toy])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_slices(connection)
        find_problems(connection, GROUPED)
        decision = decide(connection, GROUPED)
    assert decision.gate == "inconclusive"
    assert f"must hold for each value of {column}" in decision.reason


@pytest.mark.parametrize(("verdict", "expected"), [("fail", "fail"), ("inconclusive", "inconclusive")])
def test_a_must_metric_of_the_whole_dataset_is_decided_by_its_value(tmp_path, verdict: str, expected: str) -> None:
    rows, scores = [answer(f"c{i}", "a") for i in range(20)], [Given(f"c{i}", "a", 0.1) for i in range(20)]
    store, run = make_run(tmp_path, rows=rows, scores=scores, evaluators=[Toy(rule=Rule(role=Role.MUST))])
    with open_run(store, run) as connection:
        aggregate(connection)
        connection.execute("UPDATE metrics SET dataset_level = true")
        connection.execute("UPDATE aggregates SET n_pass = NULL, verdict = ?", [verdict])
        find_problems(connection, GROUPED)
        assert decide(connection, GROUPED).gate == expected


def test_a_mean_does_not_hide_a_part_of_the_answers_that_is_bad(tmp_path: Path) -> None:
    toy = Toy(rule=Rule(min_pass_share=0.75))
    third: list[float | str] = [0.2, 0.99, 0.99, 0.99] * 20  # mean 0.79, 75 % pass
    assert gate(tmp_path / "enough", third, toys=[toy], policy=GROUPED).gate == "pass"
    decision = gate(tmp_path / "unsure", [*third, 0.7, 0.7], toys=[toy], policy=GROUPED)
    assert decision.gate == "inconclusive"
    assert "73.2 % of the answers of model a satisfy Value, 75 % should, which 82 rows cannot decide" in decision.reason
    many: list[float | str] = [0.6, 0.99] * 60
    assert gate(tmp_path / "surely", many, toys=[toy], policy=GROUPED).gate == "fail"


def test_a_pass_without_a_check_of_quality_says_so(tmp_path: Path) -> None:
    toy = Toy(family="privacy", rule=Rule(role=Role.MUST))
    assert "Only leaks and unsafe answers were looked for" in gate(tmp_path, GOOD, toys=[toy], policy=GROUPED).reason
    assert "Only leaks" not in gate(tmp_path / "b", GOOD, policy=GROUPED).reason
