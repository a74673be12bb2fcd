"""The tables that a run's results are published as: files, DataFrames and ``report.json`` have the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from leadline.tasks.db import Aggregate, Flip, MetricScore, Problem, SliceMean, columns_of, sql, table_of


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of a published table.

    Attributes:
        source: What is selected, in SQL.
        pandas: Its type in pandas.
        words: What it means, in Markdown; ``""`` where the column before it says so.
    """

    name: str
    source: str
    pandas: str = "string"
    words: str = ""


def _own(kind: type, *names: str) -> tuple[PublishedColumn, ...]:
    """Return columns of one of the run's tables: those that are named, or all but the numbers of other lines."""
    columns = {column.name: column for column in columns_of(kind)}
    chosen = [columns[name] for name in names or columns if names or not name.endswith("_id")]
    return tuple(PublishedColumn(c.name, f"{table_of(kind)}.{c.name}", c.pandas, c.words) for c in chosen)


_EVALUATOR: Final = PublishedColumn("evaluator", "evaluators.evaluator", words="id of the evaluator, key of the metric")
_METRIC: Final = PublishedColumn("metric", "metrics.metric")
_MODEL: Final = PublishedColumn("model", "models.model_key", words="key of the model")
_SLICE: Final = ("slice_column", "slice_value")

PUBLISHED: Final[Mapping[str, tuple[PublishedColumn, ...]]] = {
    "scores": (
        PublishedColumn("row_id", "scores.row_id", "int64", "the row, from 0 as in `store sql`: a case and a model"),
        PublishedColumn("case", "cases.case_key"),
        PublishedColumn("model", "models.model_key"),
        _EVALUATOR,
        _METRIC,
        PublishedColumn("trial", "scores.trial", "int64", "from 0"),
        PublishedColumn("status", "scores.status::VARCHAR", words="`scored`, `unscored`, `not_applicable`"),
        *_own(MetricScore, "reason", "value"),
        PublishedColumn(
            "passes",
            "CASE WHEN higher_is_better THEN value >= threshold ELSE value <= threshold END",
            "boolean",
            "whether the value satisfies the run's threshold; empty without a value or a threshold",
        ),
    ),
    "aggregates": (
        _EVALUATOR,
        _METRIC,
        PublishedColumn("primary", "metrics.is_primary", "bool", "whether it is the evaluator's main metric"),
        _MODEL,
        *_own(Aggregate),
    ),
    "slices": (
        *_own(SliceMean, *_SLICE),
        _EVALUATOR,
        _METRIC,
        PublishedColumn("role", "rules.role", words="the metric's role in the policy"),
        PublishedColumn("model", "models.model_key", words="key of the model; empty for all models together"),
        *(column for column in _own(SliceMean) if column.name not in _SLICE),
    ),
    "problems": (
        *_own(Problem, "problem_id", "severity", "type", "kind", "fault", "instrument", "harm"),
        PublishedColumn("evaluator", "evaluators.evaluator", words="where it was found, if there is one"),
        _METRIC,
        PublishedColumn("model", "models.model_key"),
        *_own(Problem, "description", "actions", "attrs"),
        PublishedColumn("n_rows", "len(problems.row_ids)", "int64", "answers concerned, at most 1,000"),
    ),
    "flips": (
        _EVALUATOR,
        _METRIC,
        _MODEL,
        PublishedColumn("original_case", "originals.case_key", words="keys of the cases"),
        PublishedColumn("perturbed_case", "perturbed.case_key"),
        *_own(Flip, "perturbation", "direction", "original_value", "perturbed_value", "threshold"),
    ),
}  # fmt: skip
"""The tables by name, with their columns in order."""


def published_sql(table: str) -> str:
    """Return the query for a published table."""
    columns = ", ".join(f'{column.source} AS "{column.name}"' for column in PUBLISHED[table])
    return sql(f"publish/{table}_table").format(columns=columns)


def pandas_types(table: str) -> dict[str, str]:
    """Return the types in pandas of a published table's columns."""
    return {column.name: column.pandas for column in PUBLISHED[table]}
