"""Problems of slices: those that stand out, and those that the policy names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import INF, Metric
from leadline.tasks.policy.policy import Role, Rule
from tests.support.stores.problem_factory import GROUPED, problems
from tests.support.stores.run_factory import VALUE, Given, Toy, answer

KINDS = ("tides", "dues", "berths", "waste")
OTHER = replace(VALUE, key="other", name="Other")


def found(
    folder: Path,
    value: Callable[[int, str], float],
    *,
    models: str = "a",
    toy: Toy | None = None,
    metadata: Callable[[int], dict[str, Any]] = lambda i: {},
    more: Sequence[Given] = (),
    toys: Sequence[Toy] = (),
) -> list[dict[str, Any]]:
    """Return the problems of kind slice of 80 cases of four categories."""
    rows = [answer(f"c{i}", m, categories=[KINDS[i % 4]], metadata=metadata(i)) for i in range(80) for m in models]
    scores = [Given(f"c{i}", m, value(i, m)) for i in range(80) for m in models]
    every = problems(folder, policy=GROUPED, rows=rows, scores=[*scores, *more], evaluators=[toy or Toy(), *toys])
    return [problem for problem in every if problem["kind"] == "slice"]


def wobble(i: int) -> float:
    return (i * 7 % 11 - 5) / 50


def tides_are_bad(i: int, model: str = "a") -> float:
    return (0.4 if i % 4 == 0 else 0.9) + wobble(i)


def test_rows_on_which_a_model_is_worse_are_one_problem_with_both_values_and_its_rows_worst_first(
    tmp_path: Path,
) -> None:
    (problem,) = found(tmp_path, tides_are_bad)
    assert problem["severity"] == "medium"
    assert problem["description"].startswith("a does worse on rows of category tides: Value 0.39")
    assert "20 answers, 95 % interval" in problem["description"]
    assert "against 0.9" in problem["description"]
    assert problem["attrs"]["slice_value"] == "tides"
    assert problem["attrs"]["q_value"] < 0.001
    assert len(problem["row_ids"]) == 20
    assert all(row % 4 == 0 for row in problem["row_ids"])
    assert 0.2 < problem["harm"] <= 0.25


def test_a_slice_that_satisfies_its_threshold_nevertheless_is_only_noted(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, lambda i, m: (0.85 if i % 4 == 0 else 0.95) + wobble(i) / 4)
    assert problem["severity"] == "low"


def test_the_same_rows_under_several_columns_metrics_and_models_are_one_problem(tmp_path: Path) -> None:
    (problem,) = found(
        tmp_path,
        tides_are_bad,
        models="ab",
        metadata=lambda i: {"office": "quay" if i % 4 == 0 else f"o{i % 3}"},
        toys=[Toy("second", metrics=[OTHER])],
        more=[Given(f"c{i}", m, tides_are_bad(i), "other", "second") for i in range(80) for m in "ab"],
    )
    assert problem["model_id"] is None
    assert problem["description"].startswith("Both models together do worse on ")
    assert "Alone, too: a and b." in problem["description"]
    assert "Likewise by " in problem["description"]
    assert "Mostly the same cases: " in problem["description"]
    assert {one["column"] for one in problem["attrs"]["slices"]} == {"category", "office"}


def test_better_slices_chance_and_metrics_that_inform_are_no_problem(tmp_path: Path) -> None:
    assert found(tmp_path / "1", lambda i, m: 0.8 + wobble(i)) == []
    assert found(tmp_path / "4", lambda i, m: 0.8 - (1e-9 if i % 4 == 0 else 0)) == [], "sure, and too small to matter"
    information = Toy(rule=Rule(role=Role.INFORMATION))
    assert found(tmp_path / "2", tides_are_bad, toy=information) == []
    lower = Toy(metrics=[Metric("value", "Value", False, threshold=0.95, primary=True)])
    (problem,) = found(tmp_path / "3", lambda i, m: 1 - tides_are_bad(i), toy=lower)
    assert problem["attrs"]["slice_value"] == "tides"


# Slices that the policy names

MUST_HOLD = Toy(rule=Rule(slices=("category",), min_rows=5))


def test_a_metric_must_hold_within_each_value_that_the_policy_names(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, tides_are_bad, toy=MUST_HOLD)
    assert problem["severity"] == "high"
    assert problem["description"] == (
        "Toy must hold for each value of category, at least 0.75; a misses it for tides 0.395 (20 answers)."
    )
    assert problem["attrs"]["demanded"] is True
    assert found(tmp_path / "2", lambda i, m: 0.85, toy=MUST_HOLD) == []


def test_a_named_slice_that_may_miss_by_chance_or_has_few_rows_is_of_medium_severity(tmp_path: Path) -> None:
    (unsure,) = found(tmp_path / "1", lambda i, m: (0.74 if i % 4 == 0 else 0.9) + wobble(i), toy=MUST_HOLD)
    assert unsure["severity"] == "medium"
    assert "may be chance" in unsure["description"]
    (few,) = found(tmp_path / "2", tides_are_bad, toy=Toy(rule=Rule(slices=("category",), min_rows=21)))
    assert few["severity"] == "medium"


@pytest.mark.parametrize(("ends", "severity"), [((0.0, INF), "medium"), ((-INF, 1.0), "high")])
def test_a_named_slice_of_few_rows_surely_misses_no_limit_above_which_its_metric_has_no_end(
    tmp_path: Path, ends: tuple[float, float], severity: str
) -> None:
    metric = Metric("value", "Value", True, range=ends, threshold=0.75, primary=True)
    (problem,) = found(tmp_path, tides_are_bad, toy=replace(MUST_HOLD, metrics=[metric]))
    assert problem["severity"] == severity


def test_where_lower_is_better_a_named_slice_is_sure_to_miss_from_the_lower_end_of_its_interval_on(
    tmp_path: Path,
) -> None:
    lower = replace(MUST_HOLD, metrics=[Metric("value", "Value", False, threshold=0.25, primary=True)])
    (sure,) = found(tmp_path / "1", lambda i, m: 1 - tides_are_bad(i), toy=lower)
    assert (sure["severity"], sure["attrs"]["demanded"]) == ("high", True)
    (unsure,) = found(tmp_path / "2", lambda i, m: (0.26 if i % 4 == 0 else 0.1) + wobble(i), toy=lower)
    assert unsure["severity"] == "medium"
    assert found(tmp_path / "3", lambda i, m: 0.15, toy=lower) == []
    endless = replace(lower, metrics=[replace(lower.metrics[0], range=(-INF, 1.0))])
    (unsure,) = found(tmp_path / "4", lambda i, m: 1 - tides_are_bad(i), toy=endless)
    assert unsure["severity"] == "medium"


def test_a_must_metric_counts_the_failing_rows_of_each_named_value(tmp_path: Path) -> None:
    rule = Rule(Role.MUST, slices=("category",), tolerance_rows=2)
    fails = {0, 4, 8, 1, 5}
    made = [
        problem
        for problem in found(tmp_path, lambda i, m: float(i not in fails), toy=Toy(rule=rule))
        if problem["attrs"].get("demanded")
    ]
    (problem,) = made
    assert problem["severity"] == "high"
    assert "tides" in problem["description"]
    assert "dues" not in problem["description"]


def test_a_column_that_the_policy_names_and_the_dataset_lacks_is_a_problem_of_the_data(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, lambda i, m: 0.9, toy=Toy(rule=Rule(slices=("region",))))
    assert (problem["severity"], problem["fault"]) == ("high", "data")
    assert "each value of region" in problem["description"]
