"""Aggregating: per model and metric the mean with its interval, coverage, bounds, pass share and verdict.

One pass of SQL over the scores gives the sums (``aggregate.sql``); the formulas over these few sums are in
:mod:`leadline.tasks.statistics.statistics`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leadline.evaluators.data import Reason
from leadline.tasks.analyse.clusters import show_cluster_rows
from leadline.tasks.analyse.dataset_metrics import DatasetValue, dataset_values
from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.policy.policy import Role, Rule
from leadline.tasks.statistics.statistics import (
    Clusters,
    Interval,
    Judged,
    Sample,
    Verdict,
    bounds,
    clopper_pearson,
    mean_interval,
    verdict,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Rows:
    """The number of rows of a model by their status on one metric."""

    all: int
    scored: int = 0
    unscored: int = 0
    not_applicable: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """Scored rows / (scored + unscored rows); 0 when there are none."""
        applicable = self.scored + self.unscored
        return self.scored / applicable if applicable else 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """The values of one metric and model."""

    metric: Mapping[str, Any]
    model_id: int
    rows: Rows
    value: float | None = None
    interval: Interval | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    n_pass: int | None = None
    effective: float = 0.0


def aggregate(connection: DuckDBPyConnection) -> int:
    """Fill the table ``aggregates`` and return its number of lines.

    Every metric gets a line for every model of which anything was scored, even if it could measure nothing itself.
    """
    show_targets(connection)
    sums = _sums(connection)
    clusters = _clusters(connection)
    reasons: defaultdict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for line in records(connection, sql("aggregate/reasons")):
        reasons[_key(line)][line["reason"]] = line["n"]
    n_rows = _rows_of_models(connection, {model for _, model in sums})
    metrics = records(connection, "SELECT * FROM metrics JOIN rules USING (metric_id) ORDER BY metric_id")
    cells = {}
    for metric in metrics:
        for model, n in n_rows.items():
            key = metric["metric_id"], model
            if not metric["dataset_level"]:
                cells[key] = _cell(metric, model, n, sums.get(key), clusters.get(key), reasons[key])
    cells |= _dataset_cells(connection, metrics, n_rows, cells)
    return replace_lines(connection, "aggregates", [_line(cells[key]) for key in sorted(cells)])


def measure_trials(connection: DuckDBPyConnection) -> int:
    """Measure how much repeated verdicts on a row differ: fill the table ``trial_spread``, return its number of lines.

    A line counts, for a metric and a model, the rows scored more than once whose trials differ
    (``n_differ``) or are on different sides of the threshold (``n_cross``); the pooled standard deviation within a row,
    ``sqrt(sum((n - 1) s²) / sum(n - 1))`` (the repeatability of ISO 5725-2); and the lowest and highest mean of a
    single trial with the standard deviation of these means, over the rows that every trial scored. Rows with an
    infinite value are left out of the last four.

    Of the variance of single trials, ``within_std``² is the judge's; what the rows' means vary beyond it lies between
    rows (``between_std``), and its share is the ``reliability`` (the intraclass correlation). ``rerun_std``, ``sqrt(2)
    within_std / sqrt(rows * trials)``, is how far the mean moves if the same rows are judged again.
    """
    connection.execute("DELETE FROM trial_spread")
    (several,) = connection.execute(sql("flips/has_trials")).fetchall()[0]
    if several:
        show_targets(connection)
        connection.execute(sql("aggregate/trial_spread"))
    (count,) = connection.execute("SELECT count(*) FROM trial_spread").fetchall()[0]
    return int(count)


def _key(line: Mapping[str, Any]) -> tuple[int, int]:
    return line["metric_id"], line["model_id"]


def _rows_of_models(connection: DuckDBPyConnection, scored: Set[int]) -> dict[int, int]:
    """Return the number of rows of each model that took part in the run: all of them when nothing was scored."""
    counted = connection.execute("SELECT model_id, count(*) FROM rows GROUP BY model_id ORDER BY model_id").fetchall()
    return {model: n for model, n in counted if model in scored or not scored}


def _sums(connection: DuckDBPyConnection) -> dict[tuple[int, int], dict[str, Any]]:
    """Sum up the scores by metric and model; spreads that were lost in the sums of squares are measured anew."""
    connection.execute(sql("aggregate/sums"))
    sums = {_key(line): line for line in records(connection, "SELECT * FROM sums")}
    lost = sorted({metric for (metric, _), line in sums.items() if _spread_is_lost(line)})
    if lost:
        for line in records(connection, sql("aggregate/deviations").format(metrics=", ".join(map(str, lost)))):
            sums[_key(line)] |= line
    return sums


def _spread_is_lost(line: Mapping[str, Any]) -> bool:
    """Return whether values are so large and vary so little that subtracting sums of squares leaves few digits."""
    if not line["n_scored"] or line["minimum"] == line["maximum"]:
        return False
    return bool(line["n_scored"] * line["mean"] ** 2 > 1e6 * line["squares"])


def _clusters(connection: DuckDBPyConnection) -> dict[tuple[int, int], Clusters]:
    """Return the clusters of rows by metric and model; none if no case has a copy."""
    if not show_cluster_rows(connection):
        return {}
    names = ("joined", "sizes", "covariance", "coskewness", "within")
    return {
        _key(line): Clusters(**{name: line[name] for name in names})
        for line in records(connection, sql("aggregate/clusters"))
    }


def _cell(
    metric: Mapping[str, Any],
    model_id: int,
    n_rows: int,
    sums: Mapping[str, Any] | None,
    clusters: Clusters | None,
    reasons: Mapping[str, int],
) -> Cell:
    if sums is None:
        return Cell(metric, model_id, Rows(n_rows))
    rows = Rows(n_rows, sums["n_scored"], sums["n_unscored"], sums["n_not_applicable"], reasons)
    if not rows.scored:
        return Cell(metric, model_id, rows)
    sample = Sample(
        n=rows.scored,
        mean=sums["mean"],
        squares=sums["squares"],
        cubes=sums["cubes"],
        constant=sums["minimum"] == sums["maximum"],
        low=metric["low"],
        high=metric["high"],
        share=metric["is_share"],
        clusters=clusters,
    )
    return Cell(
        metric,
        model_id,
        rows,
        value=None if math.isnan(sample.mean) else sample.mean,
        interval=mean_interval(sample),
        std=sample.std,
        minimum=sums["minimum"],
        maximum=sums["maximum"],
        n_pass=None if metric["threshold"] is None else sums["n_pass"],
        effective=sample.effective,
    )


def _dataset_cells(
    connection: DuckDBPyConnection,
    metrics: list[dict[str, Any]],
    n_rows: Mapping[int, int],
    cells: Mapping[tuple[int, int], Cell],
) -> dict[tuple[int, int], Cell]:
    """Compute the metrics that are not means of rows; their rows are counted as those of a sibling metric are."""
    wanted = [metric for metric in metrics if metric["dataset_level"] or metric["pooled"]]
    if not wanted:
        return {}
    siblings: dict[tuple[int, int], Cell] = {}
    for cell in cells.values():
        siblings.setdefault((cell.metric["evaluator_id"], cell.model_id), cell)
    effect = {key: cell.rows.scored / cell.effective for key, cell in siblings.items() if cell.effective}
    values = dataset_values(connection, wanted, effect)
    out = {}
    for metric in wanted:
        for model, n in n_rows.items():
            found = values.get((metric["metric_id"], model), DatasetValue())
            sibling = siblings.get((metric["evaluator_id"], model))
            rows = sibling.rows if sibling else Rows(n, found.n)
            if found.failed:
                reasons = {**rows.reasons, Reason.EVALUATOR_ERROR.value: rows.scored}
                rows = Rows(n, 0, rows.scored + rows.unscored, rows.not_applicable, reasons)
            out[metric["metric_id"], model] = Cell(metric, model, rows, found.value, found.interval)
    return out


def _line(cell: Cell) -> dict[str, Any]:
    metric, rows, interval = cell.metric, cell.rows, cell.interval
    if (metric["dataset_level"] or metric["pooled"]) and rows.unscored:
        if_worst = if_best = None  # not a mean: the effect of the missing rows is unknown
    else:
        ends = (metric["low"], metric["high"]) if metric["higher_is_better"] else (metric["high"], metric["low"])
        if_worst, if_best = bounds(cell.value, rows.scored, rows.unscored, *ends)
    surely = interval and interval.surely(metric["low"], metric["high"])
    judged = Judged(cell.value, surely, if_worst, if_best, rows.coverage)
    share = cell.n_pass / rows.scored if cell.n_pass is not None else None
    pass_low, pass_high = (None, None) if share is None else clopper_pearson(share, cell.effective)
    return {
        "metric_id": metric["metric_id"],
        "model_id": cell.model_id,
        "n_rows": rows.all,
        "n_scored": rows.scored,
        "n_unscored": rows.unscored,
        "n_not_applicable": rows.not_applicable,
        "reasons": json.dumps(rows.reasons, sort_keys=True),
        "value": cell.value,
        "ci_low": interval.low if interval else None,
        "ci_high": interval.high if interval else None,
        "ci_method": interval.method if interval else None,
        "std": cell.std,
        "minimum": cell.minimum,
        "maximum": cell.maximum,
        "if_worst": if_worst,
        "if_best": if_best,
        "threshold": metric["threshold"],
        "n_pass": cell.n_pass,
        "pass_share": share,
        "pass_low": pass_low,
        "pass_high": pass_high,
        "verdict": _verdict_of_rows(cell)
        if metric["role"] == Role.MUST and cell.n_pass is not None
        else verdict(judged, metric["threshold"], higher_is_better=metric["higher_is_better"]),
    }


def _verdict_of_rows(cell: Cell) -> Verdict:
    """Return the verdict of a *must* metric, which counts failing rows and asks nothing of the mean."""
    rows, metric = cell.rows, cell.metric
    rule = Rule(tolerance_rows=metric["tolerance_rows"], tolerance_share=metric["tolerance_share"])
    n_failed = rows.scored - (cell.n_pass or 0)
    if n_failed > rule.tolerated(rows.scored):
        share = n_failed / rows.scored
        sure = not metric["surely"] or clopper_pearson(share, cell.effective)[0] > rule.tolerance_share
        return "fail" if sure else "inconclusive"
    return "pass" if rows.scored and rows.coverage >= metric["min_coverage"] else "inconclusive"
