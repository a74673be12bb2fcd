"""Changes of a level: found where they are, with an error rate that holds over many series."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.tasks.statistics import change_points
from leadline.tasks.statistics.change_points import LevelSeries, find_changes

NIGHTS = 60
CASES = 400


def _nights(draw, *, chance=0.85, nights=NIGHTS):
    """Return shares of good answers among as many fresh cases every night."""
    values = draw.binomial(CASES, chance, nights) / CASES
    return LevelSeries(values, np.sqrt(values * (1 - values) / CASES), ["one"] * nights)


def _autoregressive(draw, memory):
    values = [draw.normal()]
    for _ in range(NIGHTS - 1):
        values.append(memory * values[-1] + np.sqrt(1 - memory**2) * draw.normal())
    return LevelSeries(0.8 + 0.02 * np.array(values), np.full(NIGHTS, 0.02), ["one"] * NIGHTS)


def test_a_drop_of_five_points_is_found_among_200_quiet_series_with_its_night_and_an_interval():
    draw = np.random.default_rng(5)
    series = [_nights(draw, chance=draw.uniform(0.7, 0.95)) for _ in range(200)]
    series[17].values[40:] -= 0.05
    found = {number: changes for number, changes in enumerate(find_changes(series)) if changes}
    (change,) = found.pop(17)
    assert abs(change.place - 40) <= 1
    assert change.low < -0.05 < change.high < 0
    assert len(found) <= 1


@pytest.mark.parametrize(("memory", "most"), [(0.0, 3), (0.3, 10)])
def test_false_alarms_among_quiet_series_stay_rare(memory, most):
    draw = np.random.default_rng(6)
    worlds = [[_autoregressive(draw, memory) for _ in range(40)] for _ in range(30)]
    alarms = [sum(map(bool, find_changes(world))) for world in worlds]
    assert sum(count > 0 for count in alarms) <= most


def test_the_p_value_of_a_quiet_series_is_below_a_level_no_more_often_than_it_says():
    draw = np.random.default_rng(7)
    p_values = []
    for _ in range(400):
        one = _nights(draw)
        p_values.append(change_points._test(one)[0])
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= level + 2.5 * np.sqrt(level / 400)


def test_what_never_moves_has_no_change_and_what_moves_once_for_good_has_one_without_an_error():
    still = LevelSeries(np.full(30, 0.8), np.full(30, 0.02), ["one"] * 30)
    moved = LevelSeries(np.repeat([0.8, 0.7], 15), np.full(30, 0.02), ["one"] * 30)
    (nothing, (change,)) = find_changes([still, moved])
    assert nothing == []
    assert (change.place, change.before, change.after) == (15, pytest.approx(0.8), pytest.approx(0.7))
    assert (change.low, change.high) == pytest.approx((-0.1, -0.1))


@pytest.mark.parametrize(("nights", "after", "found"), [(10, 5, 1), (12, 3, 1), (10, 2, 0)])
def test_a_large_drop_is_found_after_few_nights_among_many_series_but_not_after_two(nights, after, found):
    draw = np.random.default_rng(13)
    dropped, *quiet = (_nights(draw, nights=nights) for _ in range(28))
    dropped.values[-after:] -= 0.2
    changes, *others = find_changes([dropped, *quiet])
    assert [change.place for change in changes] == [nights - after] * found
    assert others == [[]] * 27
    dropped.errors[:] = np.nan  # nobody knows how far such a value moves by chance
    assert find_changes([dropped, *quiet]) == [[]] * 28


def test_small_steps_from_night_to_night_hide_no_large_drop():
    values = np.array([0.716, 0.714, 0.707, 0.706, 0.7, 0.505, 0.505, 0.501, 0.5, 0.5, 0.5])
    draw = np.random.default_rng(15)
    dropped = LevelSeries(values, np.full(11, 0.05), ["one"] * 11)
    changes, *others = find_changes([dropped, *(_nights(draw, nights=11) for _ in range(27))])
    assert [change.place for change in changes] == [5]
    assert others == [[]] * 27


def test_rare_failures_in_neighbouring_nights_are_no_change_after_few_nights():
    values = np.array([0.0] * 7 + [0.0025] * 3)
    rare = LevelSeries(values, np.sqrt(values * (1 - values) / CASES), ["one"] * 10)
    draw = np.random.default_rng(14)
    assert find_changes([rare, *(_nights(draw, nights=10) for _ in range(27))]) == [[]] * 28


def test_one_bad_night_is_no_new_level():
    draw = np.random.default_rng(8)
    bad = _nights(draw)
    bad.values[59] = 0.3
    assert find_changes([bad]) == [[]]


def test_a_series_that_drops_twice_has_two_changes():
    draw = np.random.default_rng(9)
    one, *quiet = (_nights(draw) for _ in range(30))
    one.values[20:] -= 0.1
    one.values[40:] -= 0.1
    changes, *others = find_changes([one, *quiet])
    assert [change.place for change in changes] == pytest.approx([20, 40], abs=2)
    assert [round(change.difference, 1) for change in changes] == [-0.1, -0.1]
    assert others == [[]] * 29


def test_the_interval_allows_for_other_cases_where_the_sample_changed_with_the_level():
    draw = np.random.default_rng(10)
    same = _nights(draw)
    same.values[30:] -= 0.1
    other = LevelSeries(same.values, same.errors, ["one"] * 30 + ["two"] * 30)
    ((of_same,), (of_other,)) = find_changes([same])[0], find_changes([other])[0]
    assert of_same.same_sample
    assert not of_other.same_sample
    assert of_other.high - of_other.low > 2 * (of_same.high - of_same.low)


def test_where_every_night_has_other_cases_the_spread_of_nights_shows_all_of_their_error():
    draw = np.random.default_rng(12)
    same = _nights(draw)
    same.values[30:] -= 0.1
    other = LevelSeries(same.values, same.errors, range(60))
    ((of_same,), (of_other,)) = find_changes([same])[0], find_changes([other])[0]
    assert not of_other.same_sample
    assert (of_other.low, of_other.high) == pytest.approx((of_same.low, of_same.high))


def test_a_level_that_moves_less_than_other_cases_would_move_it_is_no_change():
    values = np.repeat([0.02, 0.0204], 6)
    errors = np.full(12, 0.03)
    (same,) = find_changes([LevelSeries(values, errors, ["one"] * 12)])
    assert len(same) == 1
    assert find_changes([LevelSeries(values, errors, ["one"] * 6 + ["two"] * 6)]) == [[]]


def test_short_series_and_none_at_all_have_no_changes_and_of_a_long_one_the_last_points_count():
    short = LevelSeries(np.array([0.1, 0.9, 0.9]), np.full(3, np.nan), [0] * 3)
    draw = np.random.default_rng(11)
    long = _nights(draw, nights=400)
    long.values[380:] -= 0.1
    assert find_changes([]) == []
    nothing, (change,) = find_changes([short, long])
    assert (nothing, change.place) == ([], 380)
