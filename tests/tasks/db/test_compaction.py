"""A run's database shrinks when what only planning needed is gone, and small runs have small databases."""

from __future__ import annotations

from pathlib import Path

import duckdb

from leadline.tasks.db import compact, literal, open_run, run_definitions
from tests.tasks.publish.sample import make_sample


def fill(path: Path, *, dropped: bool) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(run_definitions())
        connection.execute("CREATE TABLE keys AS SELECT hash(i) AS key FROM range(1_000_000) AS t(i)")
        connection.execute("INSERT INTO scores SELECT i % 5, i, 0, 'scored', NULL, i / 7 FROM range(100_000) AS t(i)")
        if dropped:
            connection.execute("DROP TABLE keys")


def test_free_blocks_are_given_back_and_the_tables_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    fill(path, dropped=True)
    before = path.stat().st_size
    query = "SELECT * FROM scores ORDER BY row_id"
    tables = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL"
    with duckdb.connect(str(path), read_only=True) as connection:
        expected = [connection.execute(statement).fetchall() for statement in (query, tables)]
    assert compact(path)
    assert path.stat().st_size < before / 3
    with duckdb.connect(str(path), read_only=True) as connection:
        assert [connection.execute(statement).fetchall() for statement in (query, tables)] == expected
    assert [file.name for file in tmp_path.iterdir()] == ["run.duckdb"]
    assert not compact(path), "nothing is free any more"


def test_a_database_in_use_as_a_whole_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path / "run.duckdb", dropped=False)
    assert not compact(tmp_path / "run.duckdb")


def test_a_small_runs_database_is_small(tmp_path: Path) -> None:
    sizes = []
    for rows in (200, 20_000):
        store, sample = make_sample(tmp_path / str(rows), cases=10)
        run = store.new_run()
        run.update({"dataset": sample.read()["dataset"], "rows": rows})
        with open_run(store, run, create=True) as connection:
            for table in ("scores", "aggregates", "problems", "slices", "slice_rows", "evidence"):
                connection.execute(f"ATTACH IF NOT EXISTS {literal(sample.database)} AS other (READ_ONLY)")
                connection.execute(f"INSERT INTO {table} FROM other.{table}")
        sizes.append(run.database.stat().st_size)
    assert sizes[0] < 400_000
    assert sizes[0] < sizes[1] / 2
