"""Writes what was staged as the Parquet files of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.tasks.db.connection import DATASET_TABLES, literal
from leadline.tasks.db.statements import sql
from leadline.tasks.load.dataset_models import Model

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_GROUP: Final = 20_480
"""Rows of a Parquet row group: what is skipped or read as a whole."""


def write_tables(connection: DuckDBPyConnection, models: list[Model], folder: Path) -> None:
    """Write the five Parquet files into a folder."""
    connection.execute(
        "CREATE TABLE staged_models (model_id USMALLINT, model_key VARCHAR, name VARCHAR, version VARCHAR)"
    )
    for model in models:
        line = [model.id, model.key, model.name, model.version]
        connection.execute("INSERT INTO staged_models VALUES (?, ?, ?, ?)", line)
    connection.execute(sql("load/macros"))
    queries = {table: sql(f"load/write_{table}") for table in DATASET_TABLES}
    queries["digests"] = queries["digests"].format(cases=literal(folder / "cases.parquet"))
    for table in DATASET_TABLES:
        connection.execute(
            f"COPY ({queries[table]}) TO {literal(folder / f'{table}.parquet')} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )
