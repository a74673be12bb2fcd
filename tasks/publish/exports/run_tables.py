"""The run-level tables, copied out by DuckDB, and ``report.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db.connection import literal
from leadline.tasks.db.statements import sql
from leadline.tasks.publish import jsonio
from leadline.tasks.publish.exports import describe
from leadline.tasks.publish.exports.leaderboards import standings
from leadline.tasks.publish.reuse import RowsFiles
from leadline.tasks.publish.views import Facts, FlipRate, TrialSpread

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = "leadline.report"
SCHEMA_VERSION: Final = 1

_PARQUET: Final = "FORMAT parquet, COMPRESSION zstd"
_CSV: Final = "FORMAT csv, HEADER"
_SCORES: Final = (
    ("scores_table", "scores.parquet", _PARQUET),
    ("scores_table", "scores.csv", _CSV),
)
_FILES: Final = (
    *_SCORES,
    ("aggregates_table", "aggregates.csv", _CSV),
    ("problems_table", "problems.csv", _CSV),
    ("flips_table", "flips.csv", _CSV),
)


def write_tables(connection: DuckDBPyConnection, facts: Facts, folder: Path, kept: RowsFiles) -> None:
    """Write the run's tables as CSV and Parquet; the rows never pass through Python."""

    def write(tables: Iterable[tuple[str, str, str]]) -> None:
        for name, file, how in tables:
            connection.execute(f"COPY ({sql(f'publish/{name}')}) TO {literal(folder / file)} ({how})")

    parts = [
        [evaluator.key, kept.inputs.get(evaluator.id), [m.key for m in sorted(evaluator.metrics, key=lambda m: m.id)]]
        for evaluator in sorted(facts.evaluators, key=lambda evaluator: evaluator.id)
    ]
    kept.put((folder, "."), [file for _, file, _ in _SCORES], parts, lambda: write(_SCORES))
    write(table for table in _FILES if table not in _SCORES)


def write_report_json(connection: DuckDBPyConnection, facts: Facts, folder: Path) -> None:
    """Write ``report.json``: everything of the report but single scores, which are in ``scores.parquet``."""
    jsonio.write(
        folder / "report.json",
        {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "run": facts.run_id,
            "name": facts.title,
            "gate": facts.gate,
            "gate_reason": facts.gate_reason,
            "gate_counted": facts.gate_counted,
            "coverage": facts.coverage,
            "n_cases": facts.n_cases,
            "n_rows": facts.n_rows,
            "n_flips": facts.n_flips,
            "scores": facts.counts,
            "problems_by_severity": facts.severities(),
            "problems_by_fault": facts.tally(),
            "record": facts.record,
            "models": facts.models,
            "evaluators": [_evaluator(facts, evaluator) for evaluator in facts.evaluators],
            "aggregates": [describe.aggregate(facts, item) for item in facts.aggregates.values()],
            "leaderboards": {
                evaluator.key: [
                    {"rank": line.rank, "model": line.model.key, "values": line.values}
                    for line in standings(facts, evaluator)
                ]
                for evaluator in facts.evaluators
            },
            "problems": jsonio.Lazy(describe.finding(facts, item) for item in facts.problems),
            "insights": jsonio.Lazy(describe.finding(facts, item) for item in facts.insights),
            "unscored": [
                {
                    "evaluator": evaluator.key,
                    "reason": item.reason,
                    "n_rows": item.n_rows,
                    "message": item.message,
                }
                for evaluator in facts.evaluators
                for item in facts.unmeasured
                if item.evaluator_id == evaluator.id
            ],
            "trial_spread": [_spread(facts, item) for item in facts.trial_spread],
            "flip_rates": jsonio.Lazy(_flip_rates(facts)),
            "flips": jsonio.Lazy(_flips(connection)),
            "files": [file for _, file, _ in _FILES] + ["report.html", "report.md", "junit.xml"],
        },
    )


def _evaluator(facts: Facts, evaluator: Any) -> dict[str, Any]:
    return {
        **describe.descriptor(evaluator),
        "folder": evaluator.folder,
        "reused": evaluator.reused,
        "computed": evaluator.computed,
        "error": evaluator.error,
    }


def _flip_rates(facts: Facts) -> Iterator[dict[str, Any]]:
    for item in facts.flip_rates:
        yield _spread(facts, item)


def _spread(facts: Facts, item: FlipRate | TrialSpread) -> dict[str, Any]:
    """Return a line about a metric and a model with their names in the place of their numbers."""
    metric, model = facts.metric(item.metric_id), facts.model(item.model_id)
    evaluator = facts.evaluator(metric.evaluator_id) if metric else None
    return {
        "evaluator": evaluator.key if evaluator else None,
        "metric": metric.key if metric else None,
        "model": model.key if model else None,
        **{name: getattr(item, name) for name in item.__dataclass_fields__ if name not in ("metric_id", "model_id")},
    }


def _flips(connection: DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(sql("publish/flips_table"))
    names = [column[0] for column in cursor.description or ()]
    while lines := cursor.fetchmany(10_000):
        for line in lines:
            yield dict(zip(names, line, strict=True))
