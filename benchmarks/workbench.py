"""Pages of ``leadline ui`` on a store of many runs with one large run, beside bare queries of the same files.

    python -m benchmarks.workbench [--runs 1000] [--rows 1000000] [--store FOLDER]

The store is made by SQL, since scoring a million rows is no matter of pages; it is kept where --store names a folder.
Each page is asked for three times from the application as it is served, and the second and third time count. First
views, with what they import, are asked once of the command, one after the other. Printed are what a person waits, and
the time of the processor, in all threads, on which others on the machine have little influence.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.error import URLError

import duckdb
import orjson
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from leadline.flows.sample_labels import SampleLabels, SampleLabelsConfig
from leadline.plugins.ui.app import workbench
from leadline.plugins.ui.site import Person, PersonRole
from leadline.tasks.db import DATASET_TABLES, connect, literal, open_run, run_definitions, sql
from leadline.tasks.load.staging import ROW_GROUP, SEARCHED_FROM, write_searched
from leadline.tasks.runs.history import RunHistory, keep_points
from leadline.tasks.runs.run_index import RunIndex, RunLine
from leadline.tasks.store.store import Run, Store

DATASET = """
INSERT INTO models SELECT i, 'model-' || i, 'model-' || i, NULL, false FROM range(2) AS t(i);
INSERT INTO cases
SELECT i, 'case-' || i, 'When is high water at berth ' || i || repeat(' please', (hash(i) % 20)::INTEGER) || '?',
       ['At noon.'], [], NULL, ['category ' || hash(i, 2) % 12], '{{}}', NULL
FROM range({rows} // 2) AS t(i);
INSERT INTO rows
SELECT i, i // 2, i % 2,
       'High water at ' || i || ' is at ' || hash(i) % 24 || ':00' || repeat(' or so', (hash(i, 1) % 30)::INTEGER),
       [], NULL, NULL, NULL, NULL, NULL, '{{}}', NULL
FROM range({rows}) AS t(i);
INSERT INTO digests BY NAME
SELECT row_id, unhex(md5(question)) AS question, unhex(md5(actual_answer)) AS actual_answer
FROM rows JOIN cases USING (case_id);
"""

RUN = """
INSERT INTO evaluators
SELECT i, 'toy-' || i, 'Toy ' || i, 'generation', 'cpu', 'heatmap', '', '{{}}', '{{}}', 0, 0, NULL
FROM range(2) AS t(i);
INSERT INTO metrics
SELECT i, i, 'metric', 'Metric ' || i, '', true, 0, 1, 0.5, true, false, false, false FROM range(2) AS t(i);
INSERT INTO rules (metric_id, question) SELECT metric_id, 'right' FROM metrics;
INSERT INTO scores
SELECT m, i, 0, 'scored', NULL, (hash(i, m) % 1000003) / 1000002.0 FROM range({rows}) AS t(i), range(2) AS s(m);
INSERT INTO slice_rows SELECT 'category', 'category ' || hash(i // 2, 2) % 12, i FROM range({rows}) AS t(i);
INSERT INTO slices BY NAME
SELECT DISTINCT slice_column, slice_value, 0 AS metric_id, 0 AS model_id, 0 AS n_rows, 0 AS n_cases, 0 AS n_scored,
       0 AS n_unscored FROM slice_rows;
"""

EDITED = """
COPY (
    SELECT * REPLACE (CASE WHEN case_id % 1000 = 7 THEN question || ' Now?' ELSE question END AS question)
    FROM read_parquet({cases})
    WHERE case_id % 997 <> 5
) TO {edited} (FORMAT parquet, COMPRESSION zstd);
"""

NIGHT = """
INSERT INTO evaluators
SELECT i, 'toy-' || i, 'Toy ' || i, 'generation', 'judge', 'heatmap', 'config {epoch}', '{{}}',
       '{{"judge": {{"model": "judge-{epoch}"}}}}', 0, 0, NULL
FROM range(6) AS t(i);
INSERT INTO metrics
SELECT i, i // 2, 'metric-' || i % 2, 'Metric ' || i, '', i % 2 = 0, 0, 1, 0.5, true, false, false, false
FROM range(12) AS t(i);
INSERT INTO rules (metric_id, question) SELECT metric_id, 'right' FROM metrics;
INSERT INTO scores
SELECT m, i, 0, 'scored', NULL, (hash(i, m) % 1000) / 999.0 FROM range(200) AS t(i), range(12) AS s(m);
INSERT INTO aggregates BY NAME
SELECT m AS metric_id, i AS model_id, 100 AS n_rows, 100 AS n_scored, 0 AS n_unscored, 0 AS n_not_applicable,
       '{{}}' AS reasons, {level} + (hash(m, i, {number}) % 100) / 5000.0 AS value, value - 0.05 AS ci_low,
       value + 0.05 AS ci_high, 0.5 AS threshold, 'pass' AS verdict
FROM range(12) AS s(m), range(2) AS t(i);
INSERT INTO slices BY NAME
SELECT 'category' AS slice_column, 'category ' || c AS slice_value, metric_id, model_id, 8 AS n_rows, 8 AS n_cases,
       8 AS n_scored, 0 AS n_unscored, value, ci_low, ci_high
FROM aggregates, range(12) AS t(c);
"""

LEVELS = ((0, 0.7), (1, 0.7), (1, 0.6))
"""Epochs and levels of the nightly runs, a part of them each: one change of the judge, and one of the models."""

EARLIER = 50
"""Runs whose points are read from their databases."""

VARIANTS = 8
"""Nights of a level that differ; the others are like one of them."""


def make_store(root: Path, runs: int, rows: int) -> tuple[Store, str]:
    """Make a store of many small runs and a large one; returns it with the id of the large one."""
    store = Store.open(root)
    large = store.run("20260102-000000")
    if large.database.exists():
        return store, large.id
    for name, number in (("d", rows), ("e", 200)):
        _make_dataset(store.dataset(name * 32), number)
    record = {
        "schema": 3, "status": "completed", "dataset": "e" * 32, "dataset_name": "harbour", "gate": "fail",
        "models": ["model-0", "model-1"], "gate_reason": "Right: model-0: 12 answers fail.",
        "problems_by_fault": {"model": {"high": 1}},
    }  # fmt: skip
    counted = {"asked": 1200, "answered": 1200, "input_tokens": 900_000, "output_tokens": 60_000, "cost_usd": 1.5}
    calls = counted | {
        "by_evaluator": [{"evaluator": f"toy-{number}", **counted, "cost_usd": 0.25} for number in range(6)]
    }
    first = datetime(2023, 4, 8, tzinfo=UTC)
    nights = root.parent / "nights"
    nights.mkdir()
    for number in range(runs):
        at = number * len(LEVELS) // runs
        night = nights / f"{at}-{number % VARIANTS}.duckdb"
        if not night.exists():
            _make_database(night, NIGHT.format(epoch=LEVELS[at][0], level=LEVELS[at][1], number=number % VARIANTS))
        run = store.run(f"20260101-{number:06}")
        run.path.mkdir(parents=True)
        os.link(night, run.database)
        own = {
            "id": run.id, "name": f"nightly {number}", "started": (first + timedelta(days=number)).isoformat(),
            "rows": 200, "judge_calls": calls, "tags": {"release": "x"} if number % 100 == 0 else {},
        }  # fmt: skip
        (run.path / "run.json").write_bytes(orjson.dumps(record | own))
        os.link(_published(store, run, night), run.points)
    large.path.mkdir(parents=True)
    of_large = {"id": large.id, "dataset": "d" * 32, "dataset_name": "ocean", "rows": rows, "started": "2026-01-02"}
    (large.path / "run.json").write_bytes(orjson.dumps(record | of_large))
    _make_database(large.database, RUN.format(rows=rows))
    return store, large.id


def _published(store: Store, run: Run, night: Path) -> Path:
    """Return the points that a night wrote when it was published."""
    points = night.with_suffix(".parquet")
    if not points.exists():
        with open_run(store, run, read_only=True) as connection:
            keep_points(connection, store, run)
        run.points.replace(points)
    return points


def _make_dataset(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(sql("dataset") + DATASET.format(rows=rows))
        for table in DATASET_TABLES:
            path = literal(folder / f"{table}.parquet")
            connection.execute(f"COPY {table} TO {path} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})")
        if rows >= SEARCHED_FROM:
            write_searched(connection, folder)
    (folder / "manifest.json").write_text("{}")


def _make_database(path: Path, content: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(run_definitions() + content)


class Took(NamedTuple):
    """Milliseconds that something took.

    Attributes:
        processor: In all threads.
    """

    wall: float
    processor: float


def _milliseconds(function: Callable[[], object], times: int = 3) -> Took:
    took = []
    for _ in range(times):
        began = time.perf_counter(), time.process_time()
        function()
        took.append((1000 * (time.perf_counter() - began[0]), 1000 * (time.process_time() - began[1])))
    return Took(*map(median, zip(*(took[1:] or took), strict=True)))


def _first_views(store: Store, pages: Mapping[str, str]) -> Iterator[tuple[str, Took]]:
    """Yield what the command takes until it answers, and for each page once."""
    began = time.perf_counter()
    port = _free_port()
    command = [sys.executable, "-m", "leadline.cli.main", "ui", "--store", str(store.root), "--port", str(port)]
    token = {"BENCHMARK_TOKEN": "a token for the benchmark"}
    process = subprocess.Popen(
        [*command, "--token-env", *token], env=os.environ | token, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def ask(path: str) -> None:
        headers = {"Authorization": f"Bearer {token['BENCHMARK_TOKEN']}"}
        urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers), timeout=300
        ).close()

    spent = 0.0
    try:
        for _ in range(1000):
            try:
                ask("/health")
                break
            except URLError:
                time.sleep(0.02)
        for name, path in {"start to the first answer": "/health", **pages}.items():
            ask(path)
            wall, processor = 1000 * (time.perf_counter() - began), _spent(process.pid)
            yield name, Took(wall, processor - spent)
            began, spent = time.perf_counter(), processor
    finally:
        process.terminate()
        process.wait(timeout=30)


def _spent(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return 1000 * (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _second_version(store: Store, large: str) -> Iterator[None]:
    """Have an earlier version of the large dataset, with a run, as long as the block takes; some cases differ."""
    folder, run = store.dataset("f" * 32), store.run("20260101-999999")
    folder.mkdir(parents=True)
    run.path.mkdir(parents=True)
    try:
        cases = [literal(store.dataset(name * 32) / "cases.parquet") for name in "df"]
        with connect() as connection:
            connection.execute(EDITED.format(cases=cases[0], edited=cases[1]))
        (folder / "manifest.json").write_text("{}")
        record = orjson.loads((store.run(large).path / "run.json").read_bytes())
        (run.path / "run.json").write_bytes(orjson.dumps(record | {"id": run.id, "dataset": "f" * 32}))
        os.link(store.run(large).database, run.database)
        yield
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(run.path)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return int(listening.getsockname()[1])


def _read_databases(history: RunHistory, lines: list[RunLine]) -> None:
    with connect(threads=1) as connection:
        connection.execute(sql("history/points"))
        for line in lines:
            history._gather_run(connection, line)


def measure(store: Store, large: str, rows: int) -> Iterator[tuple[str, Took]]:
    """Yield what each page takes, and a bare query."""
    shutil.rmtree(store.root / "history", ignore_errors=True)
    app = workbench(store)

    async def as_editor(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["person"] = Person("anna", PersonRole.EDITOR, "proof")
        await app(scope, receive, send)

    web = TestClient(as_editor)
    history = RunHistory(store, RunIndex(store))
    yield "runs read for the first time", _milliseconds(lambda: history.gather(3600), 1)
    earlier = [line for line in history.index.lines() if line.has_report][-EARLIER:]
    yield f"{EARLIER} runs of an earlier version", _milliseconds(partial(_read_databases, history, earlier), 1)
    drawing = {"run": large, "metric": "toy-0.metric", "rows": 200, "store": store.location}
    SampleLabels()(SampleLabelsConfig.model_validate(drawing))
    queue = "/labels/labels/queue?metric=toy-0.metric"
    with _second_version(store, large):
        yield from _first_views(
            store,
            {
                "trends, first view": "/trends?dataset=harbour",
                "datasets over time, first view": "/trends/datasets?dataset=ocean",
                "two models, first view": f"/compare?run={large}:model-0&run={large}:model-1",
            },
        )
    pages = {
        "runs": "/",
        "runs, searched": "/?q=nightly+99&sort=problems",
        "a run": f"/runs/{large}",
        "cases": f"/cases?run={large}",
        "cases, last page": f"/cases?run={large}&page={rows // 40}",
        "cases by metric": f"/cases?run={large}&metric=toy-0.metric",
        "cases by metric, failing": f"/cases?run={large}&metric=toy-0.metric&outcome=fails",
        "cases of a slice": f"/cases?run={large}&slice=category%3Dcategory+3",
        "cases that fail a question": f"/cases?run={large}&question=right",
        "cases with words": f"/cases?run={large}&q=berth+{rows // 4}",
        "cases of all runs with words": f"/cases?q=berth+{rows // 4}",
        "a case": f"/runs/{large}/case?case=case-{rows // 4}",
        "labels": "/labels",
        "the next case of a queue": queue,
        "trends": "/trends?dataset=harbour",
        "trends, 1,000 runs": "/trends?dataset=harbour&last=1000",
        "trends of a slice": "/trends?dataset=harbour&last=1000&slice=category%3Dcategory+3",
        "two models": f"/compare?run={large}:model-0&run={large}:model-1",
        "costs": "/costs",
        "costs by judge": "/costs?by=judge&days=all",
        "work": "/work",
    }
    for name, address in pages.items():
        assert web.get(address).status_code == 200, address
        yield name, _milliseconds(partial(web.get, address))
    parquet = literal(store.dataset("d" * 32) / "rows.parquet")
    with duckdb.connect() as connection:
        bare = f"SELECT * FROM read_parquet({parquet}) WHERE contains(lower(actual_answer), 'berth {rows // 4}')"
        yield "bare: words in answers", _milliseconds(lambda: connection.execute(bare).fetchall())
        few = f"SELECT * FROM read_parquet({parquet}) LIMIT 40"
        yield "bare: 40 rows", _milliseconds(lambda: connection.execute(few).fetchall())


def main(arguments: list[str] | None = None) -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="a folder in which the store is kept for the next time")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store, large = make_store((chosen.store or Path(folder)) / "store", chosen.runs, chosen.rows)
        for name, took in measure(store, large, chosen.rows):
            print(f"{name:31} {took.wall:8.0f} ms {took.processor:8.0f} ms of processor", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{chosen.runs:,} runs, one of {chosen.rows:,} rows; the process peaked at {peak:.2f} GiB with making the store"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
