"""The means at which a gate's outcome turns, by policy and role."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.tasks.policy.policy import Policy, load_policy
from leadline.tasks.statistics.statistics import clopper_pearson
from leadline.tasks.stopping.looks import _limits

PLANNED = {"rows": 1_000, "clusters": 1_000}


def metric(**more: Any) -> dict[str, Any]:
    return {
        "low": 0.0, "high": 1.0, "higher_is_better": True, "threshold": 0.75, "is_primary": True, "is_share": True,
        "role": "should", "tolerance_rows": 0, "tolerance_share": 0.0, "min_pass_share": 0.0,
        "proof": "none", "question": "right", "dataset_level": False, **more
    }  # fmt: skip


def limits(policy: str, fail_on: str, **more: Any) -> list[dict[str, Any]]:
    return list(_limits(metric(**more), PLANNED, load_policy(policy), fail_on))


def test_a_should_metric_turns_at_its_threshold() -> None:
    (found,) = limits("default", "medium")
    assert (found["pass_at"], found["fail_below"]) == (0.75, 0.75)


def test_with_high_only_a_mean_surely_below_the_threshold_fails() -> None:
    (found,) = limits("default", "high")
    assert found["pass_at"] == 0.75
    below = found["fail_below"]
    assert 0.71 < below < 0.73
    assert clopper_pearson(below, 1_000)[1] == pytest.approx(0.75, abs=1e-6)


def test_a_policy_that_asks_for_certainty_passes_only_a_mean_surely_above() -> None:
    (found,) = limits("strict", "high")
    assert clopper_pearson(found["pass_at"], 1_000)[0] == pytest.approx(0.75, abs=1e-6)


def test_a_scale_that_is_better_when_lower_is_turned() -> None:
    (found,) = limits("default", "medium", low=1.0, high=5.0, threshold=2.0, higher_is_better=False, is_share=False)
    assert found["pass_at"] == pytest.approx(0.75)


def test_the_rules_of_sonar_are_half_way_to_the_worst_value() -> None:
    (found,) = limits("sonar", "high")
    assert (found["pass_at"], found["fail_below"]) == (0.375, 0.375)
    assert not limits("sonar", "high", is_primary=False)


@pytest.mark.parametrize(
    ("tolerance", "turns"), [({}, 1.0), ({"tolerance_share": 0.02}, 0.98), ({"tolerance_rows": 50}, 0.95)]
)
def test_a_must_metric_turns_where_more_rows_fail_than_are_tolerated(tolerance: dict[str, Any], turns: float) -> None:
    (found,) = limits("default", "high", role="must", **tolerance)
    assert (found["pass_at"], found["fail_below"]) == pytest.approx((turns, turns))
    assert found["passes"]


def test_a_share_that_must_pass_is_a_question_of_its_own() -> None:
    mean, share = limits("default", "medium", is_share=False, min_pass_share=0.6)
    assert (mean["passes"], share["passes"], share["pass_at"]) == (False, True, 0.6)


def test_what_informs_has_no_threshold_or_no_end_is_not_asked() -> None:
    assert not limits("default", "high", role="information")
    assert not limits("default", "high", threshold=None)
    assert not limits("default", "high", high=float("inf"))
    assert not list(_limits(metric(threshold=0.0), PLANNED, Policy("p"), "high"))
