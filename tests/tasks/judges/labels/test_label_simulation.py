"""Certificates and corrected numbers of simulated judges: what the documents promise."""

import pytest

from benchmarks.label_simulation import coverage_of_numbers, states

RUNS = 60


@pytest.mark.parametrize(
    ("world", "state", "least"),
    [
        ((0.92, 0.95, 0.6, 111), "valid", 0.75),
        ((0.63, 0.85, 0.85, 100), "valid", 0.9),
        ((0.63, 0.5, 0.5, 100), "failed", 0.8),
    ],
)
def test_a_certificate_goes_to_judges_that_tell_good_from_bad_however_many_answers_are_good(world, state, least):
    found = states(*world, RUNS)
    assert found[state] >= least * RUNS
    assert found["failed" if state == "valid" else "valid"] <= 0.05 * RUNS
    assert found["covers"] >= 0.88 * RUNS


@pytest.mark.parametrize("how", ["uniform", "by-score"])
def test_corrected_numbers_cover_what_is_true_of_all_such_rows(how):
    assert coverage_of_numbers(how, 0.5, 120)[0] >= 0.9
