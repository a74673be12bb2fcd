"""The tables of a run as Parquet and CSV, copied out by DuckDB; the rows never pass through Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.tasks.db.connection import literal
from leadline.tasks.db.statements import sql
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_HOW: Final = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".csv": "FORMAT csv, HEADER"}


@register_exporter
class ParquetScores(Exporter):
    """Every score as Parquet."""

    name = "parquet"
    files = ("scores.parquet",)
    published = True
    order = 100

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``scores.parquet``."""
        _write_scores(results, folder, "scores.parquet")


@register_exporter
class CsvTables(Exporter):
    """Scores, aggregates, problems and flips as CSV."""

    name = "csv"
    files = ("scores.csv", "aggregates.csv", "problems.csv", "flips.csv")
    published = True
    order = 200

    def write(self, results: RunResults, folder: Path) -> None:
        """Write the four tables."""
        _write_scores(results, folder, "scores.csv")
        for file in self.files[1:]:
            _write(results.connection, folder / file)


def _write_scores(results: RunResults, folder: Path, file: str) -> None:
    """Write all scores, or copy those of an earlier run that are the same."""
    parts = [
        [evaluator.key, results.kept.inputs.get(evaluator.id), sorted((m.id, m.key) for m in evaluator.metrics)]
        for evaluator in sorted(results.facts.evaluators, key=lambda evaluator: evaluator.id)
    ]
    results.kept.put((folder, "."), [file], parts, lambda: _write(results.connection, folder / file))


def _write(connection: DuckDBPyConnection, path: Path) -> None:
    query = sql(f"publish/{path.stem}_table")
    connection.execute(f"COPY ({query}) TO {literal(path)} ({_HOW[path.suffix]})")
