"""Files that many tests begin with, made once, and many lines at once into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from leadline.tasks.db import connect, run_definitions


def files_of(write: Callable[[Path], None]) -> dict[str, bytes]:
    """Return the files that are written into a folder, to be copied: making them takes longer than most tests."""
    with TemporaryDirectory() as folder:
        write(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        (folder / name).write_bytes(content)


def database_of(fill: Callable[[duckdb.DuckDBPyConnection], None]) -> bytes:
    """Return the file of a run's database, with its tables and what is filled in."""

    def write(folder: Path) -> None:
        with connect(folder / "run.duckdb", threads=1, block_size=1 << 14) as connection:
            connection.execute(run_definitions())
            fill(connection)

    return files_of(write)["run.duckdb"]


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, lines: Iterable[Sequence[Any]], columns: str = "*"
) -> None:
    """Insert lines, whose values are in the order of the columns."""
    schema = connection.sql(f"SELECT {columns} FROM {table} LIMIT 0").to_arrow_table().schema
    values = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*lines, strict=True), schema, strict=True)],
        schema=schema,
    )
    connection.register("filling", values)
    connection.execute(f"INSERT INTO {table} ({', '.join(schema.names)}) SELECT * FROM filling")
    connection.unregister("filling")
