"""Pages of ``leadline ui`` on a store of many runs with one large run, beside bare queries of the same files.

    python -m benchmarks.workbench [--runs 1000] [--rows 1000000]

The store is made by SQL, since scoring a million rows is no matter of pages. Each page is asked for three times from
the application as it is served; the second and third time count. The bare queries read the same Parquet file.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb
import orjson
from starlette.testclient import TestClient

from leadline.plugins.ui.app import workbench
from leadline.tasks.db import DATASET_TABLES, literal, run_definitions, sql
from leadline.tasks.store.store import Store

DATASET = """
INSERT INTO models SELECT i, 'model-' || i, 'model-' || i, NULL, true FROM range(2) AS t(i);
INSERT INTO cases
SELECT i, 'case-' || i, 'When is high water at berth ' || i || repeat(' please', (hash(i) % 20)::INTEGER) || '?',
       ['At noon.'], [], NULL, ['category ' || hash(i, 2) % 12], '{{}}', NULL
FROM range({rows} // 2) AS t(i);
INSERT INTO rows
SELECT i, i // 2, i % 2, 'High water is at ' || hash(i) % 24 || ':00' || repeat(' or so', (hash(i, 1) % 30)::INTEGER),
       [], NULL, NULL, NULL, NULL, NULL, '{{}}', NULL
FROM range({rows}) AS t(i);
"""

RUN = """
INSERT INTO evaluators
SELECT i, 'toy-' || i, 'Toy ' || i, 'generation', 'cpu', 'heatmap', '', '{{}}', '{{}}', 0, 0, NULL
FROM range(2) AS t(i);
INSERT INTO metrics
SELECT i, i, 'metric', 'Metric ' || i, '', true, 0, 1, 0.5, true, false, false, false FROM range(2) AS t(i);
INSERT INTO rules (metric_id, question) SELECT metric_id, 'right' FROM metrics;
INSERT INTO scores
SELECT m, i, 0, 'scored', NULL, (hash(i, m) % 1000) / 999.0 FROM range({rows}) AS t(i), range(2) AS s(m);
INSERT INTO slice_rows SELECT 'category', 'category ' || hash(i // 2, 2) % 12, i FROM range({rows}) AS t(i);
INSERT INTO slices BY NAME
SELECT DISTINCT slice_column, slice_value, 0 AS metric_id, 0 AS model_id, 0 AS n_rows, 0 AS n_cases, 0 AS n_scored,
       0 AS n_unscored FROM slice_rows;
"""


def make_store(root: Path, runs: int, rows: int) -> tuple[Store, str]:
    """Make a store of many small runs and a large one; returns it with the id of the large one."""
    store = Store.open(root)
    folder = store.dataset("d" * 32)
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(sql("dataset") + DATASET.format(rows=rows))
        for table in DATASET_TABLES:
            connection.execute(f"COPY {table} TO {literal(folder / f'{table}.parquet')} (COMPRESSION zstd)")
    (folder / "manifest.json").write_text("{}")
    record = {
        "schema": 3, "status": "completed", "dataset": "d" * 32, "dataset_name": "harbour", "gate": "fail",
        "models": ["model-0", "model-1"], "gate_reason": "Right: model-0: 12 answers fail.",
        "problems_by_fault": {"model": {"high": 1}},
    }  # fmt: skip
    for number in range(runs):
        run = store.run(f"20260101-{number:06}")
        run.path.mkdir(parents=True)
        own = record | {"id": run.id, "name": f"nightly {number}", "started": "2026-01-01T00:00:00+00:00", "rows": 200}
        (run.path / "run.json").write_bytes(orjson.dumps(own))
    large = store.run("20260102-000000")
    large.path.mkdir(parents=True)
    (large.path / "run.json").write_bytes(
        orjson.dumps(record | {"id": large.id, "rows": rows, "started": "2026-01-02"})
    )
    with duckdb.connect(str(large.database)) as connection:
        connection.execute(run_definitions() + RUN.format(rows=rows))
    return store, large.id


def _milliseconds(function: object, times: int = 3) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        function()  # type: ignore[operator]
        took.append(1000 * (time.perf_counter() - began))
    return median(took[1:])


def measure(runs: int, rows: int) -> dict[str, float]:
    """Return the milliseconds of each page, and of a bare query."""
    with tempfile.TemporaryDirectory() as folder:
        store, large = make_store(Path(folder) / "store", runs, rows)
        web = TestClient(workbench(store))
        pages = {
            "runs": "/",
            "runs, searched": "/?q=nightly+99&sort=problems",
            "a run": f"/runs/{large}",
            "cases": f"/cases?run={large}",
            "cases, last page": f"/cases?run={large}&page={rows // 40}",
            "cases by metric": f"/cases?run={large}&metric=toy-0.metric&outcome=fails",
            "cases of a slice": f"/cases?run={large}&slice=category%3Dcategory+3",
            "cases that fail a question": f"/cases?run={large}&question=right",
            "cases with words": f"/cases?run={large}&q=berth+{rows // 4}",
            "a case": f"/runs/{large}/case?case=case-{rows // 4}",
        }
        found = {}
        for name, address in pages.items():
            assert web.get(address).status_code == 200, address
            found[name] = _milliseconds(lambda address=address: web.get(address))
        parquet = literal(store.dataset("d" * 32) / "rows.parquet")
        with duckdb.connect() as connection:
            bare = f"SELECT * FROM read_parquet({parquet}) WHERE contains(lower(actual_answer), 'berth {rows // 4}')"
            found["bare: words in answers"] = _milliseconds(lambda: connection.execute(bare).fetchall())
            found["bare: 40 rows"] = _milliseconds(
                lambda: connection.execute(f"SELECT * FROM read_parquet({parquet}) LIMIT 40").fetchall()
            )
        return found


def main(arguments: list[str] | None = None) -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args(arguments)
    for name, took in measure(chosen.runs, chosen.rows).items():
        print(f"{name:28} {took:8.0f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{chosen.runs:,} runs, one of {chosen.rows:,} rows; the process peaked at {peak:.2f} GiB with making the store"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
