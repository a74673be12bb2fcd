import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.statistics.label_correction import (
    ErrorRates,
    PassFailLabels,
    Stratum,
    actively_sampled,
    post_stratified,
    prediction_powered,
    rogan_gladen,
    stratified,
)
from tests.support.simulated_labels import JUDGE_ON_LABELS, JUDGE_ON_REST, LABELS


def test_pass_and_fail_labels_correct_the_share_that_a_judge_passes():
    one = post_stratified(PassFailLabels(62, 70, 9, 30, 1400, 2000))
    assert (one.value, one.low, one.high) == pytest.approx((0.71, 0.6312633969292434, 0.7771058594894106))
    two = post_stratified(PassFailLabels(27, 31, 1, 9, 144, 200))
    assert (two.value, two.low, two.high) == pytest.approx((0.65820788530, 0.53034678214, 0.77340780968))


def test_a_side_without_labels_may_hold_anything():
    corrected = post_stratified(PassFailLabels(50, 50, 0, 0, 90, 100))
    assert corrected.low < 0.87
    assert corrected.high == pytest.approx(1, abs=0.001)


def test_a_judge_that_is_worse_than_chance_is_corrected_too():
    corrected = post_stratified(PassFailLabels(5, 50, 45, 50, 500, 1000))
    mirrored = post_stratified(PassFailLabels(45, 50, 5, 50, 500, 1000))
    assert corrected.value == pytest.approx(mirrored.value)
    assert (corrected.low, corrected.high) == pytest.approx((mirrored.low, mirrored.high))


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_the_corrected_share_lies_in_its_interval_and_the_interval_in_its_range(passed, failed, data):
    labels = PassFailLabels(
        data.draw(st.integers(0, passed)),
        passed,
        data.draw(st.integers(0, failed)),
        failed,
        data.draw(st.integers(passed, 500)),
        0,
    )
    corrected = post_stratified(
        PassFailLabels(
            labels.passed_good, passed, labels.failed_good, failed, labels.judged_passed, labels.judged_passed + failed
        )
    )
    assert 0 <= corrected.low <= corrected.value <= corrected.high <= 1


def test_prediction_powered_inference_equals_its_reference():
    # ppi-python 0.2.3 gives 0.66403 (0.55089 to 0.77717) with the normal distribution for Student's
    corrected = prediction_powered(LABELS, JUDGE_ON_LABELS, JUDGE_ON_REST)
    assert corrected.weight == pytest.approx(0.5257936507936509)
    assert (corrected.value, corrected.low, corrected.high) == pytest.approx(
        (0.6638516865079365, 0.5457583155365194, 0.7819450574793535), abs=1e-8
    )


def test_copies_of_a_case_count_as_one_label():
    every = prediction_powered(LABELS, JUDGE_ON_LABELS, JUDGE_ON_REST)
    doubled = prediction_powered(
        np.repeat(LABELS, 2), np.repeat(JUDGE_ON_LABELS, 2), JUDGE_ON_REST, np.repeat(np.arange(len(LABELS)), 2)
    )
    assert doubled.high - doubled.low == pytest.approx(every.high - every.low, rel=0.05)
    assert prediction_powered(LABELS, JUDGE_ON_LABELS, JUDGE_ON_REST, np.zeros(len(LABELS))) is None


def test_a_judge_that_says_nothing_is_left_out():
    labels = np.array([0.0, 1.0] * 20)
    corrected = prediction_powered(labels, np.tile([0.3, 0.3, 0.9, 0.9], 10), np.linspace(0, 1, 100))
    assert corrected.weight == pytest.approx(0, abs=1e-12)
    assert corrected.value == pytest.approx(labels.mean())


def _world(draw, rows):
    truth = draw.random(rows)
    return truth, np.clip(truth * 0.7 + 0.25 + draw.normal(0, 0.08, rows), 0, 1)


def _coverage(estimate, runs=300):
    hits = 0
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        truth, judge = _world(draw, 600)
        corrected = estimate(draw, truth, judge)
        hits += corrected.low <= 0.5 <= corrected.high  # the mean of all such rows
    return hits / runs


def test_stratified_labels_cover_although_strata_are_labelled_unevenly():
    def estimate(draw, truth, judge):
        part = (judge > 0.6).astype(int)
        strata = []
        for number, size in ((0, 20), (1, 60)):
            rows = np.flatnonzero(part == number)
            drawn = draw.choice(rows, size, replace=False)
            strata.append(Stratum(truth[drawn], judge[drawn], judge[rows]))
        corrected = stratified(strata)
        assert corrected.high - corrected.low < 0.11  # labels alone: 0.13
        return corrected

    assert _coverage(estimate) >= 0.92


def test_rows_drawn_with_chances_of_their_own_cover():
    def estimate(draw, truth, judge):
        chances = np.clip(0.05 + 0.3 * np.abs(judge - 0.5), 0.05, 1)
        drawn = draw.random(len(judge)) < chances
        return actively_sampled(truth[drawn], judge[drawn], chances[drawn], judge)

    assert _coverage(estimate) >= 0.92


def test_labels_that_nobody_gave_yet_do_not_make_the_others_count_for_less():
    labels, chances = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.5, 0.25, 0.5, 0.25])
    judge, rest = np.array([0.8, 0.6, 0.9, 0.5]), np.linspace(0, 1, 50)
    every = actively_sampled(labels, judge, chances, rest)
    assert actively_sampled(labels, judge, chances / 2, rest) == every
    assert 0.5 < every.value < 0.9


def test_copies_of_a_case_with_chances_of_their_own_count_as_one_label():
    draw = np.random.default_rng(2)
    labels, judge, rest = draw.random(30), draw.random(30), draw.random(200)
    chances = np.linspace(0.1, 0.5, 30)
    once = actively_sampled(labels, judge, chances, rest)
    twice = actively_sampled(
        *(np.repeat(part, 2) for part in (labels, judge, chances)), np.repeat(rest, 2), np.repeat(np.arange(30), 2)
    )
    assert twice.high - twice.low == pytest.approx(once.high - once.low, rel=0.03)


def test_a_single_label_with_a_chance_gives_no_estimate():
    assert actively_sampled(np.ones(1), np.ones(1), np.ones(1), np.ones(9)) is None


def test_a_stratum_with_a_single_label_gives_no_estimate():
    one = Stratum(np.array([1.0]), np.array([1.0]), np.array([1.0, 0.0]))
    assert stratified([one]) is None
    assert stratified([]) is None


def test_borrowed_labels_correct_by_the_error_rates():
    corrected = rogan_gladen(0.8, 2000, ErrorRates(0.95, 60, 0.8, 40))
    assert (corrected.value, corrected.low, corrected.high) == pytest.approx(
        (0.8, 0.7317417766652479, 0.8914595987187199)
    )


def test_borrowed_labels_of_a_judge_that_hardly_tells_good_from_bad_are_refused():
    assert rogan_gladen(0.8, 2000, ErrorRates(0.55, 60, 0.5, 40)) is None


def test_post_stratified_labels_cover_where_failures_are_rare():
    draw, hits = np.random.default_rng(5), 0
    for _ in range(1_000):
        truth = draw.random(2_000) < 0.95
        judge = np.where(draw.random(2_000) < 0.9, truth, ~truth)
        rows = draw.choice(2_000, 50, replace=False)
        good, passed = truth[rows], judge[rows]
        corrected = post_stratified(
            PassFailLabels(
                int((good & passed).sum()),
                int(passed.sum()),
                int((good & ~passed).sum()),
                int((~passed).sum()),
                int(judge.sum()),
                2_000,
            )
        )
        hits += corrected.low <= 0.95 <= corrected.high
    assert hits / 1_000 >= 0.93
    assert not math.isnan(corrected.value)
