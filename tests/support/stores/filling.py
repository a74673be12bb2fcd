"""Many lines at once into a table: one statement for each takes milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa


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
