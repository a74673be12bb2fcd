"""Differences of answers that were scored again, pooled over runs: their size, their interval, and what they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from leadline.tasks.compare.rescored import (
    RescoredDifference,
    _kept_differences,
    _measured,
    _Pool,
    join_epochs,
    rescored_differences,
)
from leadline.tasks.runs.history import RunHistory
from leadline.tasks.runs.run_index import RunIndex
from leadline.tasks.runs.trends import Trends
from leadline.tasks.statistics.paired import score_interval
from leadline.tasks.store.store import Run, Store
from tests.support.stores.runs import make_run

CASES = 40
LOW_OF_3_IN_25, HIGH_OF_3_IN_25 = -0.299558, 0.029175
"""Tango's 95 % score interval of a paired difference where 3 of 25 pairs turn bad and none turns good, solved apart."""


def scored(
    store: Store,
    name: str,
    values: Sequence[float | None],
    judge: str,
    *,
    first: int = 0,
    sliced: range = range(0),
    **record: Any,
) -> Run:
    """Make a run of one answer to each of some cases, scored by a judge, of which some are in the slice kind=a=b."""
    answers = [
        {"case": f"c{first + n}", "model": "m", "question": f"Q{first + n}?", "answer": "A"} for n in range(len(values))
    ]
    run = make_run(store, name, values=values, answers=answers, record={"models": ["m"], **record})
    with duckdb.connect(str(run.database)) as connection:
        connection.execute(
            "UPDATE evaluators SET config = $1, identity = json_object('judge', json_object('model', $1))", [judge]
        )
        connection.execute("UPDATE metrics SET is_share = true")
        known = [value for value in values if value is not None]
        connection.execute(
            "UPDATE aggregates SET model_id = 0, value = $1, ci_low = $1 - 0.05, ci_high = $1 + 0.05", [np.mean(known)]
        )
        if sliced:
            lines = [("kind", "a=b", row) for row in sliced]
            connection.executemany("INSERT INTO slice_rows (slice_column, slice_value, row_id) VALUES (?, ?, ?)", lines)
            mean = np.mean([value for row in sliced if (value := values[row]) is not None])
            connection.execute(
                "INSERT INTO slices (slice_column, slice_value, metric_id, model_id, n_rows, n_cases, n_scored, "
                "n_unscored, value, ci_low, ci_high) "
                "SELECT 'kind', 'a=b', metric_id, 0, $2, $2, $2, 0, $1, $1 - 0.05, $1 + 0.05 FROM metrics",
                [mean, len(sliced)],
            )  # fmt: skip
    return run


def passing(count: int, of: int = CASES) -> list[float]:
    return [1.0] * count + [0.0] * (of - count)


def test_a_difference_of_one_run_has_the_interval_of_paired_shares(store: Store) -> None:
    old, new = scored(store, "20260101-a", passing(30), "a"), scored(store, "20260102-b", passing(22), "b")
    (found,) = rescored_differences(store, [(old, new)])
    assert (found.before, found.after, found.effect) == (0.75, 0.55, pytest.approx(-0.2))
    assert (found.low, found.high) == score_interval(0, 8, CASES)
    assert (found.changed, found.judge, found.answers, found.cases, found.runs) == ("judge", "b", CASES, CASES, 1)
    assert found.words == (
        f"the new judge b scores 20.0 points lower ({-100 * found.high:.1f} to {-100 * found.low:.1f}) "
        "on the same 40 answers of 1 run"
    )
    (mirror,) = rescored_differences(store, [(new, old)])
    assert (mirror.effect, mirror.low, mirror.high) == pytest.approx((0.2, -found.high, -found.low))


def test_cases_that_come_in_several_runs_count_once_and_others_beside_them(store: Store) -> None:
    def pair(night: int, first: int) -> tuple[Run, Run]:
        return (
            scored(store, f"2026010{night}-a", passing(30), "a", first=first),
            scored(store, f"2026010{night}-b", passing(22), "b", first=first),
        )

    same = [pair(night, 0) for night in range(3)]
    (one,), (thrice,) = rescored_differences(store, same[:1]), rescored_differences(store, same)
    assert (thrice.answers, thrice.cases, thrice.runs) == (3 * CASES, CASES, 3)
    assert thrice.effect == pytest.approx(one.effect)
    assert None not in (one.low, one.high, thrice.low, thrice.high)
    assert thrice.high - thrice.low > 0.9 * (one.high - one.low)  # type: ignore[operator]
    (more,) = rescored_differences(store, [same[0], pair(4, CASES)])
    assert (more.answers, more.cases) == (2 * CASES, 2 * CASES)
    assert more.high - more.low < 0.8 * (one.high - one.low)  # type: ignore[operator]


def test_what_could_not_be_scored_is_counted_and_a_difference_that_may_be_chance_says_so(store: Store) -> None:
    old = scored(store, "20260101-a", [None, *passing(30, CASES - 1)], "a")
    new = scored(store, "20260102-b", [0.0, *passing(29, CASES - 2), None], "b")
    (found,) = rescored_differences(store, [(old, new)])
    assert (found.answers, found.unscored) == (CASES - 2, 2)
    assert "which may be chance" in found.words
    assert found.words.endswith("; 2 could not be compared")
    (none,) = rescored_differences(store, [(old, old)])
    assert (none.effect, none.changed) == (0.0, "")


def test_runs_without_a_case_or_metric_in_common_have_no_difference(store: Store) -> None:
    old, other = (
        scored(store, "20260101-a", passing(3, 4), "a"),
        scored(store, "20260102-b", passing(3, 4), "b", first=9),
    )
    assert rescored_differences(store, [(old, other)]) == []
    assert rescored_differences(store, [(old, old)], metric="another") == []
    assert rescored_differences(store, []) == []


def test_an_epoch_is_joined_by_the_instrument_and_the_models_own_change_is_told_apart(store: Store) -> None:
    for night in range(2):
        scored(store, f"2026010{night}-a", passing(36), "a", started=f"2026-01-0{night + 1}T00:00:00+00:00")
        scored(store, f"2026020{night}-r", passing(28), "b", rescored=f"2026010{night}-a")
    scored(store, "20260103-n", passing(18), "b", started="2026-01-04T00:00:00+00:00")
    trends = Trends(RunHistory(store, RunIndex(store)))
    trends.history.gather(60)
    (trend,) = trends.of("sample", "value", "bleu", "bleu_1")
    assert [point.source for point in trend.points] == ["20260100-a", "20260101-a", "20260103-n"]
    assert [(point.run.id, point.rescored) for point in trend.again] == [
        ("20260100-a", "20260200-r"), ("20260101-a", "20260201-r"),
    ]  # fmt: skip
    found = join_epochs(store, trend, 2)
    assert found is not None
    assert found.model is not None
    assert (found.instrument.effect, found.model.effect) == pytest.approx((-0.2, -0.25))
    assert (found.before, found.after) == ("20260201-r", "20260103-n")
    assert found.model_words.startswith("Scored alike, m is 25.0 points lower (")
    store.run("20260101-a").database.unlink()
    _kept_differences.cache_clear()
    assert join_epochs(store, trend, 2) is None


def test_a_difference_in_a_slice_is_of_the_answers_that_are_in_it_in_both_runs(store: Store) -> None:
    old = scored(store, "20260101-a", passing(30), "a", sliced=range(25))
    new = scored(store, "20260102-b", passing(22), "b", sliced=range(28))
    (found,) = rescored_differences(store, [(old, new)], slice_="kind=a=b")
    assert (found.answers, found.before, found.after) == (25, 1.0, pytest.approx(22 / 25))
    assert found.effect == pytest.approx(-3 / 25)
    assert (found.low, found.high) == pytest.approx((LOW_OF_3_IN_25, HIGH_OF_3_IN_25), abs=1e-4)
    (mirror,) = rescored_differences(store, [(new, old)], slice_="kind=a=b")
    assert (mirror.low, mirror.high) == pytest.approx((-HIGH_OF_3_IN_25, -LOW_OF_3_IN_25), abs=1e-4)
    assert rescored_differences(store, [(old, new)], slice_="kind=a") == []


def test_an_epoch_of_a_slice_is_joined_by_the_answers_in_it(store: Store) -> None:
    few = range(25)
    scored(store, "20260101-a", passing(36), "a", sliced=few, started="2026-01-01T00:00:00+00:00")
    scored(store, "20260201-r", passing(22), "b", sliced=few, rescored="20260101-a")
    scored(store, "20260103-n", passing(20), "b", sliced=few, started="2026-01-04T00:00:00+00:00")
    trends = Trends(RunHistory(store, RunIndex(store)))
    trends.history.gather(60)
    (whole,) = trends.of("sample", "value", "bleu", "bleu_1")
    (trend,) = trends.of("sample", "value", "bleu", "bleu_1", slice_="kind=a=b")
    found, all_rows = join_epochs(store, trend, 1), join_epochs(store, whole, 1)
    assert found is not None
    assert found.model is not None
    assert all_rows is not None
    assert all_rows.instrument.effect == pytest.approx((22 - 36) / 40)
    assert (found.instrument.effect, found.model.effect) == pytest.approx((-3 / 25, -2 / 25))
    assert (found.instrument.low, found.instrument.high) == pytest.approx((LOW_OF_3_IN_25, HIGH_OF_3_IN_25), abs=1e-4)
    assert found.instrument.words.endswith("on the same 25 answers of 1 run")


def pooled(draw: np.random.Generator, runs: int) -> RescoredDifference:
    """Return the difference of cases that each come in several runs, on which judges differ by 10 points in truth."""
    pool = _Pool({
        "evaluator": "e", "metric": "m", "evaluator_name": "E", "name": "M", "is_primary": True, "low": 0.0,
        "high": 1.0, "is_share": True, "identity": "{}",
    }, "judge")  # fmt: skip
    for run in range(runs):
        pool.cases += [f"c{n}" for n in range(CASES)]
        pool.clusters += [(run, n) for n in range(CASES)]
    before = draw.random(CASES) < 0.8
    after = before & (draw.random(CASES) < 0.875)  # the judges differ on a case, in whichever run it comes
    pool.before, pool.after = [before.astype(float)] * runs, [after.astype(float)] * runs
    (found,) = _measured(pool, "model")
    return found


def test_the_interval_over_several_runs_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(7)
    found = [pooled(draw, 3) for _ in range(300)]
    held = [one.low is not None and one.high is not None and one.low <= -0.1 <= one.high for one in found]
    assert np.mean(held) >= 0.92
