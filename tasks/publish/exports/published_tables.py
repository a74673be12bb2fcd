"""The tables that a run's results are published as: files, DataFrames and ``report.json`` have the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import Aggregate, Flip, MetricScore, Problem, SliceMean, columns_of, open_run, sql, table_of
from leadline.tasks.runs.query import archive
from leadline.tasks.runs.run_facts import RunSummary, summary
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of a published table.

    Attributes:
        source: What is selected, in SQL.
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


TEXT: Final = "string"
WHOLE: Final = "int64"
NUMBER: Final = "float64"

SCORES: Final = pandas_types("scores")
"""Columns of the scores with their types in pandas; a text or a boolean may be missing."""
AGGREGATES: Final = pandas_types("aggregates")
PROBLEMS: Final = pandas_types("problems")

RUNS: Final = {column.name: column.pandas for column in columns_of(RunSummary) if column.name != "record"}
"""Columns of the runs; numbers of a run that was not completed are missing."""

HISTORY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("run", "name"), TEXT),
    "started": "datetime64[us]",
    **dict.fromkeys(("dataset_name", "evaluator", "metric", "model"), TEXT),
    **dict.fromkeys(("value", "ci_low", "ci_high", "threshold"), NUMBER),
    **dict.fromkeys(("n_scored", "n_unscored"), "Int64"),
    **dict.fromkeys(("verdict", "gate"), TEXT),
}


def scores(store: Store, run: Run) -> DataFrame:
    """Return every score: a line for each case, model, metric and trial.

    Returns:
        The columns of :data:`SCORES`; ``value`` is NaN unless the status is ``scored``, ``passes`` is missing without a
        threshold or a value.
    """
    return _frame(store, run, "scores", {"metric": None})


def aggregates(store: Store, run: Run) -> DataFrame:
    """Return every mean: a line for each metric and model, with interval, coverage and verdict.

    Returns:
        The columns of :data:`AGGREGATES`; ``reasons`` is JSON.
    """
    return _frame(store, run, "aggregates")


def problems(store: Store, run: Run) -> DataFrame:
    """Return every problem, the worst first.

    Returns:
        The columns of :data:`PROBLEMS`; ``attrs`` is JSON.
    """
    return _frame(store, run, "problems")


def turns(store: Store, run: Run) -> DataFrame:
    """Return the scores of turns: a line for each conversation of several turns, turn, model, metric and trial."""
    return _read(store, run, "publish/turn_table")


def steps(store: Store, run: Run) -> DataFrame:
    """Return the steps of traces: a line for each call of a model or tool, with times in milliseconds and tokens."""
    return _read(store, run, "publish/step_table")


def runs(store: Store) -> DataFrame:
    """Return the runs of a store, the oldest first, with the columns of :data:`RUNS`."""
    from pandas import DataFrame

    found = [summary(run) for run in store.runs()]
    return typed(DataFrame(found, columns=list(RUNS)), RUNS)


def history(store: Store, metric: str) -> DataFrame:
    """Return the means of a metric in all runs, the oldest first.

    Args:
        metric: Key of a metric, id of an evaluator for its primary metrics, or both as ``evaluator.metric``.

    Returns:
        The columns of :data:`HISTORY`; no lines where no run measured it.
    """
    with archive(store, statement=sql("query/history")) as opened:
        return typed(opened.connection.execute(sql("query/history"), {"metric": metric}).df(), HISTORY)


def typed(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return a frame with these columns, each of its type, however few values it has."""
    out: DataFrame = frame[list(columns)].astype(dict(columns))
    return out


def _read(store: Store, run: Run, statement: str) -> DataFrame:
    with open_run(store, run, read_only=True) as connection:
        return connection.execute(sql(statement)).df()


def _frame(store: Store, run: Run, table: str, given: Mapping[str, Any] | None = None) -> DataFrame:
    with open_run(store, run, read_only=True) as connection:
        return typed(connection.execute(published_sql(table), dict(given or {})).df(), pandas_types(table))
