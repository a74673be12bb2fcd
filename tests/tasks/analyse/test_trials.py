"""How much the trials of a row differ: against numpy, and in the cases at the edge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import Metric
from leadline.tasks.analyse.aggregate import measure_trials
from leadline.tasks.db import open_run, records
from tests.support.stores.run_factory import Given, Toy, answer, fill, make_run

CASES = ("a", "b", "c", "d")


def spread(tmp_path: Path, values: dict[str, list[float | str]], **kinds: Any) -> list[dict[str, Any]]:
    """Return the lines for rows whose trials said these values."""
    metric = Metric("value", "Value", higher_is_better=True, primary=True, **({"threshold": 0.5} | kinds))
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    store, run = make_run(folder, rows=[answer(case, "m") for case in CASES], evaluators=[Toy(metrics=(metric,))])
    scores = [Given(case, "m", value, trial=trial) for case, said in values.items() for trial, value in enumerate(said)]
    with open_run(store, run) as connection:
        fill(connection, [Toy(metrics=(metric,))], scores)
        measure_trials(connection)
        return records(connection, "SELECT * FROM trial_spread")


def test_rows_scored_once_have_no_spread(tmp_path: Path) -> None:
    assert spread(tmp_path, {"a": [0.1], "b": [0.9]}) == []


def test_trials_that_agree_have_none_and_others_are_counted_by_value_and_by_side(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [1, 1, 1], "b": [0.6, 0.7, 0.8], "c": [0.4, 0.6, 0.6], "d": ["", "", ""]})
    assert (line["n_trials"], line["n_rows"], line["n_differ"], line["n_cross"]) == (3, 3, 2, 1)
    assert line["differ_share"] == pytest.approx(2 / 3)
    assert line["cross_share"] == pytest.approx(1 / 3)
    means = [np.mean([1, 0.6, 0.4]), np.mean([1, 0.7, 0.6]), np.mean([1, 0.8, 0.6])]
    assert (line["lowest_mean"], line["highest_mean"]) == pytest.approx((min(means), max(means)))
    assert line["means_std"] == pytest.approx(np.std(means, ddof=1))


def test_the_threshold_itself_is_on_its_good_side(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [0.5, 0.6]})
    assert line["n_cross"] == 0
    (line,) = spread(tmp_path, {"a": [0.5, 0.4]})
    assert line["n_cross"] == 1


def test_without_a_threshold_no_side_is_told(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [0.1, 0.9]}, threshold=None)
    assert line["n_cross"] is None
    assert line["cross_share"] is None
    assert line["n_differ"] == 1


def test_a_trial_without_a_score_does_not_move_the_means_of_trials(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [1, 1, 1], "b": [0, 0, "judge_unparseable"], "c": [0.5, "budget", "budget"]})
    assert line["n_rows"] == 2
    assert (line["lowest_mean"], line["highest_mean"], line["means_std"]) == (1, 1, 0)


def test_where_no_row_has_all_trials_the_means_are_not_compared(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [1, 0, "budget"]})
    assert line["lowest_mean"] is line["means_std"] is None
    assert line["within_std"] == pytest.approx(math.sqrt(0.5))


def test_infinite_values_differ_but_have_no_standard_deviation(tmp_path: Path) -> None:
    (line,) = spread(tmp_path, {"a": [math.inf, 2.0], "b": [1.0, 3.0]}, range=(0.0, math.inf))
    assert line["n_differ"] == 2
    assert line["within_std"] == pytest.approx(math.sqrt(2))
    assert line["lowest_mean"] == 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=5), min_size=1, max_size=len(CASES)
    ).filter(lambda rows: any(len(row) > 1 for row in rows))
)
def test_the_spread_within_a_row_is_the_pooled_standard_deviation(tmp_path: Path, rows: list[list[float]]) -> None:
    (line,) = spread(tmp_path, dict(zip(CASES, rows, strict=False)))
    repeated = [row for row in rows if len(row) > 1]
    pooled = sum((len(row) - 1) * np.var(row, ddof=1) for row in repeated) / sum(len(row) - 1 for row in repeated)
    assert line["within_std"] == pytest.approx(math.sqrt(pooled), abs=1e-9)
    assert line["n_rows"] == len(repeated)
