"""The gate: pass, fail, inconclusive, and one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.perturbation_flips import find_flips
from leadline.tasks.db.connection import open_run
from tests.support.stores.run_factory import Given, Toy, answer, make_run


def gate(folder: Path, values: list[float | str], *, toys: list[Toy] | None = None, **how: Any) -> Decision:
    rows = [answer(f"c{i}", "a") for i in range(len(values))] or [answer("c", "a")]
    scores = [Given(f"c{i}", "a", value) for i, value in enumerate(values)]
    store, run = make_run(folder, rows=rows, scores=scores, evaluators=toys or [Toy()])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_flips(connection)
        find_problems(connection)
        decision = decide(connection, **how)
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
