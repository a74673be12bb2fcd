"""The rows of a run that a metric scored: what people are asked about, and what their labels are held against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, listing
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import open_run, records, show_row_scores, sql
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.core import Evaluator, Metric
    from leadline.tasks.statistics.bounded_mean import Booleans, Floats, Ints


HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class RowMetric:
    """A metric that rows have, and what its values mean.

    Attributes:
        low: Least value of its range.
        high: Greatest value of its range.
        is_share: Whether values are 0 or 1.
    """

    evaluator: str
    metric: str
    threshold: float | None
    higher_is_better: bool
    low: float
    high: float
    is_share: bool

    @property
    def limit(self) -> float:
        """The threshold, or one half where there is none."""
        return HALF if self.threshold is None else self.threshold

    def passes(self, values: Floats) -> Booleans:
        """Say which values pass: those on the good side of the limit. Not a number never does."""
        return values >= self.limit if self.higher_is_better else values <= self.limit

    def votes(self, values: Floats) -> Floats:
        """Return values as passes and fails, 1 and 0; not a number stays."""
        return np.where(np.isnan(values), math.nan, self.passes(values))


def row_metric(evaluator: Evaluator, metric: Metric) -> dict[str, Any]:
    """Return the fields of :class:`RowMetric` of an evaluator's metric."""
    return {
        "evaluator": evaluator.spec.id,
        "metric": metric.key,
        "threshold": metric.threshold,
        "higher_is_better": metric.higher_is_better,
        "low": float(metric.range[0]),
        "high": float(metric.range[1]),
        "is_share": metric.share,
    }


@dataclass(frozen=True, slots=True)
class JudgedMetric(RowMetric):
    """A metric of a run.

    Attributes:
        config: Digest of the evaluator's configuration, of which judge and prompt are a part.
    """

    metric_id: int
    name: str
    description: str
    config: str

    @property
    def id(self) -> str:
        """``EVALUATOR.METRIC``, which labels name; of a question that people are asked, its name."""
        return f"{self.evaluator}.{self.metric}" if self.metric else self.evaluator

    @property
    def is_binary(self) -> bool:
        """True if rows pass or fail; otherwise they have numbers."""
        return self.is_share or self.threshold is not None


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The rows that a metric scored, in the order of the dataset; trials are averaged.

    Attributes:
        rows: Number of each row in the run.
        keys: Digest of what a person sees of it.
        clusters: Number of its original, which its perturbed copies share.
    """

    metric: JudgedMetric
    rows: Ints
    keys: list[str]
    cases: list[str]
    models: list[str]
    clusters: Ints
    values: Floats

    def of_model(self, model: str) -> JudgedRows:
        """Return the rows of one model.

        Raises:
            UsageError: None is of it.
        """
        own = np.array([name == model for name in self.models], dtype=bool)
        if not own.any():
            known = sorted(set(self.models))
            raise UsageError(
                f"{self.metric.id} has no row of the model {model[:100]!r}.",
                hint=f"Models: {listing(known)}." if known else "",
                code=ErrorCode.LABEL_SAMPLE,
            )
        keys, cases = ([each[place] for place in np.flatnonzero(own)] for each in (self.keys, self.cases))
        models = [model] * len(keys)
        return replace(
            self, rows=self.rows[own], keys=keys, cases=cases, models=models, clusters=self.clusters[own],
            values=self.values[own],
        )  # fmt: skip


def read_judged_rows(store: Store, run: Run, metric: str) -> JudgedRows:
    """Return the rows of a run that a metric scored.

    Args:
        metric: ``EVALUATOR`` for its primary metric, or ``EVALUATOR.METRIC``.

    Raises:
        UsageError: The run has no such metric, or it has no values of rows.
    """
    with open_run(store, run, read_only=True) as connection:
        return judged_rows(connection, _find_metric(connection, run, metric))


def read_metric(store: Store, run: Run, name: str) -> JudgedMetric:
    """Return a metric of a run by ``EVALUATOR`` for the primary one, or ``EVALUATOR.METRIC``.

    Raises:
        UsageError: The run has no such metric, or it has no values of rows.
    """
    with open_run(store, run, read_only=True) as connection:
        return _find_metric(connection, run, name)


def row_metrics(connection: DuckDBPyConnection) -> list[JudgedMetric]:
    """Return the metrics of a run that rows have, in its order."""
    return [JudgedMetric(**line) for line in records(connection, sql("labels/metrics"))]


def _find_metric(connection: DuckDBPyConnection, run: Run, name: str) -> JudgedMetric:
    found = records(connection, sql("labels/metric"), [name, None])
    if not found and "." in name:
        evaluator, _, metric = name.rpartition(".")
        found = records(connection, sql("labels/metric"), [evaluator, metric])
    if not found:
        known = connection.execute("SELECT evaluator FROM evaluators ORDER BY evaluator_id").fetchall()
        raise UsageError(
            f"Run {run.id} has no metric {name!r}.",
            hint=f"Its evaluators: {', '.join(line[0] for line in known)}.",
            code=ErrorCode.LABEL_SAMPLE,
        )
    first = found[0]
    if first.pop("dataset_level"):
        raise UsageError(
            f"{name} is a number of the whole dataset: there are no rows to label.", code=ErrorCode.LABEL_SAMPLE
        )
    return JudgedMetric(**first)


def judged_rows(connection: DuckDBPyConnection, metric: JudgedMetric) -> JudgedRows:
    """Return the rows of a run that a metric scored."""
    show_row_scores(connection)
    return rows_of(connection, metric, sql("labels/rows").format(row_key=sql("labels/row_key")), [metric.metric_id])


def rows_of(
    connection: DuckDBPyConnection, metric: JudgedMetric, query: str, parameters: Sequence[object] = ()
) -> JudgedRows:
    """Return the rows that a query gives, with their clusters.

    Args:
        query: Gives ``row_id, case_id, case_key, model_key, value, key``.
    """
    found: Mapping[str, Any] = connection.execute(query, list(parameters)).fetchnumpy()
    families = perturbation_clusters(connection)
    cases = found["case_id"].astype(np.int64)
    clusters = cases.copy()
    if len(families["case_id"]):
        place = np.searchsorted(families["case_id"], cases)
        place[place == len(families["case_id"])] = 0
        copied = families["case_id"][place] == cases
        clusters[copied] = -1 - families["family"][place[copied]]
    return JudgedRows(
        metric,
        found["row_id"].astype(np.int64),
        found["key"].tolist(),
        found["case_key"].tolist(),
        found["model_key"].tolist(),
        clusters,
        found["value"].astype(float),
    )
