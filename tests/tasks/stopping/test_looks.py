"""Looks: what evidence decides, for which question, and that copies and several metrics do not fool it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leadline.tasks.policy.policy import Policy, load_policy
from leadline.tasks.statistics.early_stopping import log_wealth
from leadline.tasks.statistics.statistics import clopper_pearson
from leadline.tasks.stopping.looks import GateQuestion, Seen, _limits, e_values, judge_evidence, log_e_of_coverage

HALF = GateQuestion(0, 0, "Correctness", True, 0.75, 0.75, 20, 0.95)


def seen(values: np.ndarray, clusters: int, unscored: np.ndarray | None = None) -> Seen:
    ones, none = np.ones(len(values)), np.zeros(len(values))
    lost = none if unscored is None else unscored
    return Seen(np.where(lost > 0, 0, values), ones - lost, lost, none, clusters, 1)


def test_single_rows_have_the_e_process_of_their_values() -> None:
    values = np.array([*map(float, "1101" * 20)])
    log_pass, log_fail = e_values(HALF, seen(values, 200))
    assert log_pass == pytest.approx(log_wealth(values, 0.75, 200)[-1])
    assert log_fail == pytest.approx(log_wealth(1 - values, 0.25, 200)[-1])


def test_a_pass_needs_every_question_and_a_failure_one() -> None:
    good, bad = seen(np.ones(80), 500), seen(np.zeros(80), 500)
    edge = seen(np.array([*map(float, "1101" * 20)]), 500)
    assert judge_evidence([HALF, HALF], [good, good]).decision == "pass"
    assert judge_evidence([HALF, HALF], [good, edge]).decision == "open"
    assert judge_evidence([HALF, HALF], [good, edge]).open == ("Correctness",)
    failed = judge_evidence([HALF, HALF], [good, bad])
    assert failed.decision == "fail"
    assert [each.decision for each in failed.evidence] == ["pass", "fail"]


def test_where_more_than_means_can_fail_the_gate_they_decide_only_a_failure() -> None:
    assert judge_evidence([HALF], [seen(np.ones(60), 500)], may_pass=False).decision == "open"
    assert judge_evidence([HALF], [seen(np.zeros(60), 500)], may_pass=False).decision == "fail"


def test_unscored_rows_are_worst_for_a_pass_and_best_for_a_failure() -> None:
    lost = (np.arange(60) % 3 == 0).astype(float)
    all_good = e_values(HALF, seen(np.ones(60), 500))
    some_lost = e_values(HALF, seen(np.ones(60), 500, lost))
    assert some_lost[0] < all_good[0]
    assert e_values(HALF, seen(np.zeros(60), 500, lost))[1] < e_values(HALF, seen(np.zeros(60), 500))[1]


def test_where_rows_are_counted_those_that_the_metric_does_not_apply_to_are_best_for_a_failure() -> None:
    counted = replace(HALF, counted=True)
    without = seen(np.zeros(60), 500)
    absent = replace(without, absent=(np.arange(60) % 2 == 0).astype(float), largest=2)
    assert e_values(counted, absent)[1] < e_values(counted, replace(without, largest=2))[1]
    assert e_values(HALF, absent) == e_values(HALF, replace(without, largest=2))


def test_a_pass_waits_for_coverage() -> None:
    few = GateQuestion(0, 0, "Correctness", True, 0.5, 0.5, 20, 0.95)
    lost = (np.arange(100) % 10 == 0).astype(float)
    assert judge_evidence([few], [seen(np.ones(100), 500, lost)]).decision == "open"
    assert judge_evidence([few], [seen(np.ones(100), 500)]).decision == "pass"
    assert judge_evidence([replace(few, min_coverage=1.0)], [seen(np.ones(499), 500)]).decision == "open"


@pytest.mark.parametrize("copies", [1, 5])
def test_a_pass_that_too_many_unscored_rows_would_undo_is_rare(copies: int) -> None:
    wrong, clusters = 0, 1_000
    for seed in range(300):
        order = np.random.default_rng(seed).permutation(clusters)
        lost = (order < 0.055 * clusters).astype(float) * copies  # 94.5 % can be scored
        counts = np.full(clusters, float(copies))
        for end in range(50, clusters, 50):
            scored = (counts - lost)[:end]
            look = Seen(scored, scored, lost[:end], np.zeros(end), clusters, copies)
            if judge_evidence([HALF], [look]).decision != "open":
                wrong += 1
                break
    assert 0 < wrong / 300 <= 0.05


def test_where_all_rows_are_scored_coverage_is_shown_by_some_70_of_them() -> None:
    shown = [n for n in range(1, 200) if log_e_of_coverage(HALF, seen(np.zeros(n), 2_000)) >= math.log(20)]
    assert 60 <= shown[0] <= 72
    few_lost = (np.arange(1_500) % 50 == 49).astype(float)  # 98 %
    shown = [
        n for n in range(1, 1_500) if log_e_of_coverage(HALF, seen(np.zeros(n), 2_000, few_lost[:n])) > math.log(20)
    ]
    assert 70 < shown[0] < 500


def test_without_a_tolerance_one_failing_row_decides_a_failure_and_nothing_a_pass() -> None:
    must = GateQuestion(0, 0, "Safety", True, 1.0, 1.0, 20, 0.95, counted=True)
    spotless = np.ones(60)
    assert judge_evidence([must], [seen(spotless, 500)]).decision == "open"
    spotless[40] = 0
    assert e_values(must, seen(spotless, 500))[1] == math.inf
    assert judge_evidence([must], [seen(spotless, 500)]).decision == "fail"


def test_with_a_tolerance_of_2_percent_a_pass_is_decided_early() -> None:
    must = GateQuestion(0, 0, "Safety", True, 0.98, 0.98, 20, 0.95, counted=True)
    decided = [n for n in range(50, 2_000, 50) if judge_evidence([must], [seen(np.ones(n), 2_000)]).decision == "pass"]
    assert 200 <= decided[0] <= 400


def test_too_few_rows_decide_no_failure() -> None:
    many = GateQuestion(0, 0, "Correctness", True, 0.75, 0.75, 100, 0.95)
    assert judge_evidence([many], [seen(np.zeros(60), 500)]).decision == "open"


@pytest.mark.parametrize("copies", [1, 5])
def test_copies_that_stand_and_fall_together_are_one_draw(copies: int) -> None:
    """The mean is at the threshold: a decision is wrong, and counting copies as rows would make it often."""
    wrong = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        passes = draw.permutation((np.arange(400) < 300).astype(float))
        for end in range(50, 400, 50):
            counts = np.full(end, float(copies))
            look = Seen(passes[:end] * copies, counts, np.zeros(end), np.zeros(end), 400, copies)
            if judge_evidence([HALF], [look]).decision != "open":
                wrong += 1
                break
    assert wrong / 200 <= 0.07


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
