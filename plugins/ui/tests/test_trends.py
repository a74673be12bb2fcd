"""The page of trends: what it draws, says and links, of any text and of a store that is not read yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pytest
from starlette.testclient import TestClient

from leadline.plugins.ui.app import protected, workbench
from leadline.plugins.ui.pages import trends as module
from leadline.plugins.ui.pages.trend_chart import MOST_POINTS, draw
from leadline.tasks.runs import run_index
from leadline.tasks.runs.history import RunHistory
from leadline.tasks.runs.run_index import RunIndex, line_of
from leadline.tasks.runs.trends import Trend, TrendPoint, TrendSubject
from leadline.tasks.statistics.change_points import LevelChange
from leadline.tasks.store.store import Run, Store
from tests.support.stores.runs import make_run

TOKEN = "a token for the page"
HOSTILE = '<script>alert(1)</script>"\x1b[31m'
START = datetime(2026, 9, 1, 2, 0, tzinfo=UTC)


def reader(store: Store) -> TestClient:
    """Return a client that has been let in, to a store that was read to its end."""
    RunHistory(store, RunIndex(store)).gather(600)
    web = TestClient(protected(workbench(store), TOKEN), follow_redirects=False)
    assert web.get("/", params={"token": TOKEN}).status_code == 303
    return web


def night(
    store: Store, number: int, value: float, *, config: str = "cfg", judge: str = "", again: str = "", **record: Any
) -> Run:
    """Make the run of a night, in which BLEU of beta has a value, or one later that scored its answers again."""
    started = START + timedelta(days=300 if again else number)
    record = {"started": started.isoformat(), **({"rescored": again} if again else {}), **record}
    run = make_run(store, f"{started:%Y%m%d}-{number:03}", record=record)
    identity = f'{{"judge": {{"model": "{judge}"}}}}' if judge else "{}"
    with duckdb.connect(str(run.database)) as connection:
        connection.execute("UPDATE evaluators SET config = ?, identity = ?", [config, identity])
        connection.execute(
            "UPDATE aggregates SET value = ?, ci_low = ?, ci_high = ?", [value, value - 0.04, value + 0.04]
        )
    return run


def nights(store: Store, values: Sequence[float], **more: Any) -> list[Run]:
    return [night(store, number, value, **more) for number, value in enumerate(values)]


def wobble(count: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(1).normal(0.8, 0.01, count)]


def test_a_drop_is_told_at_the_head_with_its_run_and_what_stayed(store: Store) -> None:
    values = [value - 0.1 * (number >= 14) for number, value in enumerate(wobble(20))]
    runs = nights(store, values, judge="judge-a")
    page = reader(store).get("/trends").text
    said = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    expected = rf"worse Since run {runs[14].id} of 2026-09-15, BLEU of beta is 1\d points lower \(\d+ to 1\d\): "
    assert re.search(expected + "same judge, same dataset.", said), said[:900]
    assert page.count('class="ring"') == 1
    sides = f"run={runs[13].id}%3Abeta&amp;run={runs[14].id}%3Abeta"
    assert f'href="/compare?{sides}"' in page


def test_every_point_links_to_its_run_and_the_table_has_the_same_numbers(store: Store) -> None:
    runs = nights(store, [0.71, 0.72, 0.73], tags={"production": "x"})
    page = reader(store).get("/trends").text
    chart, table = page.split("</svg>\n</div>", 1)
    for run, value in zip(runs, ("71 %", "72 %", "73 %"), strict=True):
        assert f'<a href="/runs/{run.id}" tabindex="-1"><title>beta, {run.id[:4]}-09-0' in chart
        assert f": {value} (" in chart
        assert value in table
    assert chart.count(">production<") == 1, "marked where it begins"


def test_of_many_runs_extremes_changes_and_ends_of_epochs_are_drawn(store: Store) -> None:
    started = [(START + timedelta(hours=number)).isoformat() for number in range(1000)]
    runs = [line_of(store.run(f"20260901-{number:04}"), {"started": at}) for number, at in enumerate(started)]
    points = tuple(
        TrendPoint(run, 0.1 if number == 333 else 0.5 + number % 7 / 100, config="a" if number < 501 else "b")
        for number, run in enumerate(runs)
    )
    changes = (LevelChange(777, 0.5, 0.6, 0.05, 0.15, 0.01, same_sample=True),)
    trend = Trend(TrendSubject("sample", "value", "bleu", "bleu_1"), "BLEU", points, True, True, changes)
    chart = draw([trend], runs)
    assert chart
    [series] = chart.series
    drawn = {point.run for point in series.points}
    assert {runs[kept].id for kept in (0, 333, 500, 501, 776, 777, 999)} <= drawn
    assert len(drawn) <= MOST_POINTS + 7
    assert (len(series.lines), chart.together) == (2, 9)
    assert [point.run for point in series.points if point.changed] == [runs[777].id]
    few = draw([replace(trend, points=points[:MOST_POINTS], changes=())], runs[:MOST_POINTS])
    assert few
    assert (len(few.series[0].points), few.together) == (MOST_POINTS, 1)


def test_the_table_comes_a_page_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(store, [0.71, 0.72, 0.73])
    monkeypatch.setattr(module, "PAGE", 2)
    web = reader(store)
    tables = [web.get(f"/trends?page={page}").text.split("</svg>\n</div>", 1)[1] for page in (1, 2)]
    assert [[value in table for value in ("71 %", "72 %", "73 %")] for table in tables] == [
        [False, True, True], [True, False, False]
    ]  # fmt: skip


def test_a_change_of_the_configuration_breaks_the_line_and_is_named_and_no_change_is_told_across_it(
    store: Store,
) -> None:
    for number, value in enumerate(wobble(24)):
        late = number >= 12
        identities = {"bleu": {"judge": {"model": "judge-b" if late else "judge-a"}, "version": "1"}}
        night(
            store, number, value - 0.2 * late, config="two" if late else "one", identities=identities,
            judge="judge-b" if late else "judge-a",
        )  # fmt: skip
    page = reader(store).get("/trends").text
    assert page.count('class="line s0"') == 2
    assert "judge changed: judge judge-b" in page
    assert "points lower" not in page


def judged_nights(store: Store, rescored: int = 0, drop: float = 0.0, **record: Any) -> list[Run]:
    """Make 12 nights by a judge, 12 by one that is 20 points stricter, and score the last of the former again."""
    runs = []
    for number, value in enumerate(wobble(24)):
        late = number >= 12
        of = {"config": "two", "judge": "judge-b"} if late else {"config": "one", "judge": "judge-a"}
        runs.append(night(store, number, value - (0.2 + drop) * late, **of, **record))
        if 12 - rescored <= number < 12:
            night(store, number, value - 0.2, config="two", judge="judge-b", again=runs[-1].id, **record)
    return runs


def test_where_an_epoch_ends_the_command_that_joins_it_is_told(store: Store) -> None:
    judged_nights(store)
    page = reader(store).get("/trends").text
    assert "leadline rescore --last 15 --dataset sample -e bleu --judge judge-b" in page


def test_runs_scored_again_join_epochs_are_drawn_at_the_time_of_their_answers_and_are_no_nights(store: Store) -> None:
    runs = judged_nights(store, rescored=8)
    web = reader(store)
    page = web.get("/trends").text
    said = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    assert re.search(r"beta: the new judge judge-b scores 0.0 points apart .*on the same 8 answers of 8 runs\.", said)
    assert "Scored alike, beta is 0.0 points apart" in said
    assert "leadline rescore" not in page
    assert page.count('class="s0 again"') == 8
    assert page.count('<th scope="row">') == len(runs)
    assert f'<a href="/runs/20270628-011" tabindex="-1"><title>beta, {runs[11].id[:4]}-09-12' in page
    assert "points lower (" not in page.split("<h3")[0]
    listed = web.get("/").text
    assert f"scores <code>{runs[11].id}</code> again" in listed
    assert listed.index('href="/runs/20270628-011"') > listed.index(f'href="/runs/{runs[12].id}"')


def test_a_change_of_the_model_where_the_judge_changed_is_told_once_the_runs_before_are_scored_again(
    store: Store,
) -> None:
    runs = judged_nights(store, rescored=8, drop=0.1)
    page = reader(store).get("/trends").text
    said = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    expected = (
        rf"Since run {runs[12].id} of 2026-09-13, BLEU of beta is (9|1\d) points lower \(\d+ to 1\d\): same judge, "
    )
    assert re.search(expected + "the runs before were scored again like it, same dataset.", said), said[:1500]
    assert f"run=20270628-011%3Abeta&amp;run={runs[12].id}%3Abeta" in page


def test_a_new_dataset_is_marked_and_told_as_the_reason(store: Store) -> None:
    for number, value in enumerate(wobble(20)):
        late = number >= 10
        night(store, number, value - 0.2 * late, dataset="b" * 32 if late else "a" * 32)
    page = reader(store).get("/trends").text
    assert "the dataset changed in that run" in page
    assert "new dataset" in page


def test_measures_questions_and_whole_runs_can_be_chosen(store: Store) -> None:
    nights(store, [0.71, 0.72, 0.73], judge_calls={"answered": 4, "unknown_price": 0, "cost_usd": 0.25})
    web = reader(store)
    shown = {of: web.get(f"/trends?of={of}&last=30").text for of in (
        "bleu.bleu_1", "bleu.bleu_1&measure=unscored", ".right", "run.cost", "run.seconds", "run.coverage",
    )}  # fmt: skip
    for value, page in zip(
        ("73 %", "<title>beta", "<title>alpha", "$0.25", "1.5 s", "66.7 %"), shown.values(), strict=True
    ):
        assert value in page
        assert "<svg" in page
    assert [of for of, page in shown.items() if "labels given since change means alone" in page] == [".right"]


def test_what_is_hostile_is_shown_as_text_and_what_is_unknown_is_a_page(store: Store) -> None:
    nights(store, [0.7, 0.8], models=["alpha", HOSTILE], dataset_name=HOSTILE, tags={HOSTILE: "x"})
    web = reader(store)
    asked = ("dataset", "of", "measure", "model", "slice", "last")
    for query in ({}, dict.fromkeys(asked, HOSTILE)):
        answer = web.get("/trends", params=query)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\x1b" not in answer.text
        assert "style=" not in answer.text


def test_a_store_without_runs_and_one_that_is_not_read_yet_say_so(store: Store, monkeypatch: Any) -> None:
    web = reader(store)
    assert "There is nothing to draw" in web.get("/trends").text
    nights(store, [0.7, 0.8, 0.9])
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(run_index, "FRESH_S", 0.0)
    page = web.get("/trends").text
    assert "Still to be read: 3 runs" in page
    assert 'data-refresh="2"' in page
