"""A scratch database for a dataset that is being read, which moves to disk what does not fit, and its Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.db import literal, sql, without_progress_bar
from leadline.tasks.load.limits import MAX_ROWS
from leadline.tasks.load.staged_tables import CASES, LABELS, ROW_GROUP, ROWS, StagedTables, row_groups
from leadline.tasks.store.scratch import scratch_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.dataset_models import Model
    from leadline.tasks.store.store import Store

_ROW_COLUMNS: Final = (
    *("row_id", "case_id", "model_id", "actual_answer", "retrieved_context", "error"),
    *("duration_s", "cost_usd", "input_tokens", "output_tokens", "metadata", "predicted_annotations"),
)
"""Columns of the rows in a dataset, see ``dataset.sql``."""

LABELS_FILE: Final = "labels.parquet"
"""The file of people's labels, which only datasets that have some have; see ``dataset.sql``."""

MEMORY: Final = "500MB"
"""Memory of the staging database; what does not fit goes to disk.

What it must have at once is small: keys and digests of some 20,000 rows, and the texts of a few row groups, each of
which has 16 MiB, or one record. The reader, its batches and Python take about as much again, so that a load stays under
a gigabyte.
"""


@dataclass(frozen=True, slots=True)
class Staging:
    """Room for a dataset that is being read.

    Attributes:
        connection: The staging database.
        tables: The records.
    """

    connection: DuckDBPyConnection
    tables: StagedTables


@contextmanager
def staging(store: Store) -> Iterator[Staging]:
    """Open an empty staging database in the store; it is deleted when the block ends.

    Raises:
        StoreError: The store has no room for it.
    """
    import duckdb

    with scratch_folder(store, "load") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": str(folder / "spill"),
            "threads": min(4, os.cpu_count() or 1),
            "preserve_insertion_order": True,
        }
        try:
            with (
                duckdb.connect(str(folder / "stage.duckdb"), config=config) as connection,
                StagedTables(folder) as tables,
            ):
                # Tables that are read once or twice are not worth compressing, nor a checkpoint every 16 MB.
                connection.execute("SET force_compression = 'uncompressed'; SET wal_autocheckpoint = '256MB'")
                without_progress_bar(connection)
                connection.execute(sql("load/macros"))
                connection.execute(sql("load/staging"))
                yield Staging(connection, tables)
        except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException, OSError) as error:
            reason = str(error).splitlines()[0]
            hint = f"Check the free space in {store.root}: a load needs up to three times the file's size."
            raise StoreError(
                f"The dataset cannot be stored: {reason}.", hint=hint, code=ErrorCode.STORE_FAILED
            ) from error


def write_tables(staged: Staging, models: list[Model], folder: Path) -> None:
    """Write the five Parquet files of a dataset, and a sixth one where it has people's labels.

    Args:
        staged: What was read.
        models: The models that answer.
        folder: Where to write.
    """
    connection = staged.connection
    connection.execute(
        "CREATE TABLE staged_models (model_id USMALLINT, model_key VARCHAR, name VARCHAR, version VARCHAR)"
    )
    for model in models:
        line = [model.id, model.key, model.name, model.version]
        connection.execute("INSERT INTO staged_models VALUES (?, ?, ?, ?)", line)
    connection.execute(sql("load/row_cases"))
    _write(folder / "cases.parquet", _cases(staged))
    _write(folder / "rows.parquet", _rows(staged))
    if staged.tables.count(LABELS):
        _write(folder / LABELS_FILE, staged.tables.read(LABELS))
    connection.execute(sql("load/case_digests").format(cases=literal(folder / "cases.parquet")))
    for table in ("models", "relationships", "digests"):
        connection.execute(
            f"COPY ({sql(f'load/write_{table}')}) TO {literal(folder / f'{table}.parquet')} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )


def _cases(staged: Staging) -> Iterator[pa.Table]:
    """Yield the cases in the order of their ids; large ones are not read together."""
    import pyarrow as pa

    connection = staged.connection
    in_order = connection.execute(sql("load/are_in_order")).fetchall()[0][0]
    for first, last in staged.tables.ranges(CASES) if in_order else [(0, MAX_ROWS)]:
        found = connection.sql(sql("load/write_cases"), params={"first": first, "last": last})
        reader = found.to_arrow_reader(ROW_GROUP)
        yield reader.schema.empty_table()
        yield from (pa.Table.from_batches([batch]) for batch in reader)


def _rows(staged: Staging) -> Iterator[pa.Table]:
    """Yield the rows, each with the id of its case."""
    import pyarrow.compute as pc

    for rows in staged.tables.read(ROWS):
        limits = pc.min_max(rows["row_id"]).as_py()
        cases = staged.connection.sql(sql("load/cases_of_rows"), params=limits).to_arrow_table()["case_id"]
        yield rows.append_column("case_id", cases).select(_ROW_COLUMNS)


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    from pyarrow import parquet

    first = next(tables)
    with parquet.ParquetWriter(path, first.schema, compression="zstd", store_schema=False) as writer:
        for group in row_groups(chain([first], tables)):
            writer.write_table(group, row_group_size=max(1, len(group)))
