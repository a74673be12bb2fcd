"""A run's folder is of the order of its scores, and holds nothing that only planning and scoring needed."""

from __future__ import annotations

from pathlib import Path

from leadline.tasks import pipeline
from leadline.tasks.db import open_run, sql
from tests.tasks.publish.sample import make_sample

CASES, MODELS, EVALUATORS = 1_000, 3, 6


def test_a_published_run_takes_at_most_2_kb_a_row(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=CASES, models=MODELS)
    rows = CASES * MODELS
    with open_run(store, run) as connection:
        connection.execute(sql("plan/tables"))
        connection.execute("INSERT INTO keys SELECT 0, i, md5(i::VARCHAR)::BLOB FROM range(500_000) AS t(i)")
    run.plan.mkdir()
    (run.plan / "cpu.parquet").write_bytes(bytes(1 << 20))
    (run.plan / "jobs.json").write_text("{}")
    before = run.database.stat().st_size
    pipeline.publish_results(store, run, None)
    assert run.database.stat().st_size < before / 3
    assert [path.name for path in run.plan.iterdir()] == ["jobs.json"]
    with open_run(store, run, read_only=True) as connection:
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert tables.isdisjoint(("keys", "plan", "to_compute"))
    sizes = {path.name: path.stat().st_size for path in run.path.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 2_000 * rows, sizes
    assert sizes["report.html"] < 1_500 * rows
    assert sizes["scores.parquet"] < 10 * rows * EVALUATORS
    assert not any(path.is_dir() for path in run.results.iterdir())
