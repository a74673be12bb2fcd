"""The tables of a run as Parquet and CSV, copied out by DuckDB; the rows never pass through Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.tasks.db import literal
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.exports.published_tables import published_sql
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SORTED_AT_ONCE: Final = 1_000_000
"""Scores that are sorted together; that spares the start of PyArrow."""
BATCH: Final = 100_000
"""Scores in memory at a time where there are more."""

_ENCODINGS: Final = {"row_id": "DELTA_BINARY_PACKED", "case": "DELTA_BYTE_ARRAY"}
"""Columns that ascend: a dictionary would repeat every value once for each metric."""


@register_exporter
class ParquetScores(Exporter):
    """Every score as Parquet."""

    name = "parquet"
    files = ("scores.parquet",)
    published = True
    of_analysis = True
    order = 100

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``scores.parquet``; millions of scores metric by metric, since sorting them all takes gigabytes."""
        connection, path = results.connection, folder / "scores.parquet"
        if sum(results.facts.counts.values()) > SORTED_AT_ONCE:
            _write_by_metric(connection, path)
        else:
            query = published_sql("scores")
            connection.execute(
                f"COPY ({query}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)", {"metric": None}
            )


def _write_by_metric(connection: DuckDBPyConnection, path: Path) -> None:
    from pyarrow import parquet

    query = published_sql("scores")
    metrics = connection.execute("SELECT metric_id FROM metrics ORDER BY metric_id").fetchall()
    tables = (connection.sql(query, params={"metric": metric}) for (metric,) in ((None,), *metrics))
    schema = next(tables).limit(0).to_arrow_table().schema
    with parquet.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in _ENCODINGS],
        column_encoding=dict(_ENCODINGS),
    ) as writer:
        for table in tables:
            for batch in table.to_arrow_reader(BATCH):
                writer.write_batch(batch)


@register_exporter
class CsvTables(Exporter):
    """Aggregates, slices and problems as CSV."""

    name = "tables"
    files = ("aggregates.csv", "slices.csv", "problems.csv")
    published = True
    of_analysis = True
    order = 200

    def write(self, results: RunResults, folder: Path) -> None:
        """Write the tables."""
        for file in self.files:
            _write_table(results.connection, folder / file)


@register_exporter
class CsvRows(Exporter):
    """Scores and flips as CSV: a line for every score, and for every pair of rows that flipped."""

    name = "csv"
    files = ("scores.csv", "flips.csv")
    published = True
    of_analysis = True
    repeats_rows = True
    order = 210

    def write(self, results: RunResults, folder: Path) -> None:
        """Write the tables."""
        for file in self.files:
            _write_table(results.connection, folder / file)


def _write_table(connection: DuckDBPyConnection, path: Path) -> None:
    given = {"metric": None} if path.stem == "scores" else None
    write_csv(connection, published_sql(path.stem), path, given)
