"""Aggregating: per model and metric the mean with its interval, coverage, bounds, pass share and verdict.

One pass of SQL over the scores gives the sums (``aggregate.sql``); the formulas over these few sums are in
:mod:`leadline.tasks.statistics.statistics`. Metrics of a whole dataset are computed over all rows of a model, or from
its comparisons with others; where they have no formula for it, resampling gives their interval.
"""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import orjson

from leadline.evaluators.core import Evaluator, find, get
from leadline.evaluators.data import (
    MOST_EXAMPLES,
    MOST_SHOWN,
    Annotation,
    Details,
    Example,
    Json,
    Reason,
)
from leadline.tasks.analyse.clusters import show_cluster_rows
from leadline.tasks.analyse.pair_records import model_strengths, pair_tables, read_pairs
from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.policy.policy import Role, Rule
from leadline.tasks.statistics.bounded_mean import TAIL, Mean
from leadline.tasks.statistics.statistics import (
    Clusters,
    Interval,
    Judged,
    Method,
    Sample,
    Verdict,
    bounds,
    clopper_pearson,
    mean_intervals,
    verdict,
)

if TYPE_CHECKING:
    import numpy.typing as npt
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
    means = {
        (metric["metric_id"], model): metric for metric in metrics if not metric["dataset_level"] for model in n_rows
    }
    samples = {
        key: _sample(metric, sums[key], clusters.get(key))
        for key, metric in means.items()
        if key in sums and sums[key]["n_scored"]
    }
    intervals = dict(zip(samples, mean_intervals(list(samples.values())), strict=True))
    cells = {}
    for key, metric in means.items():
        model, rows = key[1], _rows(n_rows[key[1]], sums.get(key), reasons[key])
        cells[key] = _cell(metric, model, rows, sums.get(key), samples.get(key), intervals.get(key))
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


def _sample(metric: Mapping[str, Any], sums: Mapping[str, Any], clusters: Clusters | None) -> Sample:
    return Sample(
        n=sums["n_scored"],
        mean=sums["mean"],
        squares=sums["squares"],
        cubes=sums["cubes"],
        constant=sums["minimum"] == sums["maximum"],
        low=metric["low"],
        high=metric["high"],
        share=metric["is_share"],
        clusters=clusters,
    )


def _rows(n_rows: int, sums: Mapping[str, Any] | None, reasons: Mapping[str, int]) -> Rows:
    if sums is None:
        return Rows(n_rows)
    return Rows(n_rows, sums["n_scored"], sums["n_unscored"], sums["n_not_applicable"], reasons)


def _cell(
    metric: Mapping[str, Any],
    model_id: int,
    rows: Rows,
    sums: Mapping[str, Any] | None,
    sample: Sample | None,
    interval: Interval | None,
) -> Cell:
    if sums is None or sample is None:
        return Cell(metric, model_id, rows)
    return Cell(
        metric,
        model_id,
        rows,
        value=None if math.isnan(sample.mean) else sample.mean,
        interval=interval,
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


log = logging.getLogger("leadline.aggregate")

SEED: Final = 20240601
_MOST_CELLS: Final = 4_000_000  # of one block of resamples: 32 MB
_LARGEST: Final = 1e6  # pixels along a side of an item


@dataclass(frozen=True, slots=True)
class Payloads:
    """The distinct payloads of one evaluator and model, how often each occurs, and a case that has it."""

    values: Sequence[Json]
    weights: npt.NDArray[np.float64]
    cases: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatasetValue:
    """A dataset-level metric of one model: its value, its interval, its rows, and whether computing it failed."""

    value: float | None = None
    interval: Interval | None = None
    n: int = 0
    failed: bool = False


def dataset_values(
    connection: DuckDBPyConnection, metrics: Sequence[Mapping[str, Any]], effect: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], DatasetValue]:
    """Compute dataset-level and pooled metrics by (metric_id, model_id), and fill the table ``details``.

    Args:
        metrics: Lines of the table ``metrics``, all dataset-level or pooled.
        effect: Design effect by (evaluator_id, model_id); resamples are that much smaller, so that perturbed copies
            of a case do not pass for independent rows.
    """
    out: dict[tuple[int, int], DatasetValue] = {}
    details: list[dict[str, Any]] = []
    groups = connection.execute(sql("aggregate/payload_groups")).fetchall()
    strength_metrics = {evaluator_id: _strength_metric(connection, evaluator_id) for evaluator_id, _ in groups}
    across = {evaluator_id for evaluator_id, metric in strength_metrics.items() if metric}
    for evaluator_id in sorted(across):
        strengths, tables = _strengths(connection, evaluator_id, strength_metrics[evaluator_id], metrics)
        out |= strengths
        details += tables
    for evaluator_id, model_id in groups:
        if evaluator_id in across:
            continue
        payloads = _payloads(connection, evaluator_id, model_id)
        wanted = [metric for metric in metrics if metric["evaluator_id"] == evaluator_id]
        values, found = _guarded(connection, evaluator_id, wanted, payloads, effect.get((evaluator_id, model_id), 1.0))
        out |= {(metric_id, model_id): value for metric_id, value in values.items()}
        if found is not None:
            filled = _fill_examples(connection, model_id, found)
            line = {"evaluator_id": evaluator_id, "model_id": model_id, "details": orjson.dumps(filled).decode()}
            details.append(line)
    replace_lines(connection, "details", details)
    return out


def _strength_metric(connection: DuckDBPyConnection, evaluator_id: int) -> str:
    """Return the metric of an evaluator that only all models together have; ``""`` where it has none."""
    (name,) = connection.execute("SELECT evaluator FROM evaluators WHERE evaluator_id = ?", [evaluator_id]).fetchall()[
        0
    ]
    kind = find(name.partition("#")[0])
    return kind.strength_metric if kind else ""


def _strengths(
    connection: DuckDBPyConnection, evaluator_id: int, metric: str, metrics: Sequence[Mapping[str, Any]]
) -> tuple[dict[tuple[int, int], DatasetValue], list[dict[str, Any]]]:
    """Compute the strengths of all models together, and the lines of the table ``details``."""
    (metric_id,) = (
        line["metric_id"] for line in metrics if (line["evaluator_id"], line["metric"]) == (evaluator_id, metric)
    )
    models = dict(connection.execute("SELECT model_key, model_id FROM models").fetchall())
    try:
        pairs = read_pairs(connection, evaluator_id)
        found, tables = model_strengths(pairs), pair_tables(pairs)
    except Exception:
        log.exception("Strengths of models could not be computed")
        return {(metric_id, model_id): DatasetValue(failed=True) for model_id in models.values()}, []
    values = {}
    for model, strength in found.items():
        ends = strength.low, strength.high
        interval = None if None in ends else Interval(*cast("tuple[float, float]", ends), "jackknife")
        values[metric_id, models[model]] = DatasetValue(strength.value, interval)
    lines = [
        {"evaluator_id": evaluator_id, "model_id": models[model], "details": orjson.dumps(table).decode()}
        for model, table in tables.items()
    ]
    return values, lines


def _payloads(connection: DuckDBPyConnection, evaluator_id: int, model_id: int) -> Payloads:
    lines = connection.execute(
        sql("aggregate/payloads"), {"evaluator_id": evaluator_id, "model_id": model_id}
    ).fetchall()
    return Payloads(
        values=[orjson.loads(payload) for payload, _, _ in lines],
        weights=np.array([weight for _, weight, _ in lines], dtype=np.float64),
        cases=[case for _, _, case in lines],
    )


def _guarded(
    connection: DuckDBPyConnection,
    evaluator_id: int,
    metrics: Sequence[Mapping[str, Any]],
    payloads: Payloads,
    effect: float,
) -> tuple[dict[int, DatasetValue], Details | None]:
    """Compute the metrics of one evaluator; if it crashes, only its own metrics are unscored."""
    n = round(float(payloads.weights.sum()))
    name, params = connection.execute(
        "SELECT evaluator, params FROM evaluators WHERE evaluator_id = ?", [evaluator_id]
    ).fetchall()[0]
    try:
        kind = get(name)
        evaluator = kind(kind.parameters.build(name, json.loads(params)))
        prepared = evaluator.prepare(payloads.values)
        size = max(1, round(n / max(effect, 1.0)))
        exact = evaluator.intervals(prepared, payloads.weights, size)
        if all(metric["metric"] in exact for metric in metrics):
            found = evaluator.aggregate(prepared, payloads.weights[np.newaxis, :])
        else:
            found = resample(evaluator, prepared, payloads.weights, size)
        values = {
            metric["metric_id"]: _exact_value(found[key], n, exact[key], evaluator.interval_method)
            if (key := metric["metric"]) in exact
            else _value(found[key], n, metric)
            for metric in metrics
        }
        return values, evaluator.details(prepared, payloads.weights, payloads.cases)
    except Exception:
        log.exception("%s failed to compute its dataset-level metrics", name)
        return {metric["metric_id"]: DatasetValue(n=n, failed=True) for metric in metrics}, None


def resample(
    evaluator: Evaluator, prepared: Any, weights: npt.NDArray[np.float64], size: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Aggregate the true weights, then multinomial resamples of ``size`` rows, in blocks."""
    random = np.random.default_rng(SEED)
    blocks = [evaluator.aggregate(prepared, weights[np.newaxis, :])]
    per_block = max(1, _MOST_CELLS // len(weights))
    resamples = evaluator.resamples(prepared)
    for start in range(0, resamples, per_block):
        number = min(per_block, resamples - start)
        drawn = random.multinomial(size, weights / weights.sum(), size=number).astype(np.float64)
        blocks.append(evaluator.aggregate(prepared, drawn))
    return {metric: np.concatenate([block[metric] for block in blocks]) for metric in blocks[0]}


def _exact_value(
    values: npt.NDArray[np.float64], n: int, ends: tuple[float, float] | None, method: Method
) -> DatasetValue:
    """Take the value of the true weights and the interval that the evaluator has a formula for."""
    true = float(values[0])
    if math.isnan(true):
        return DatasetValue(n=n)
    return DatasetValue(true, Interval(*ends, method) if ends else None, n)


def _value(values: npt.NDArray[np.float64], n: int, metric: Mapping[str, Any]) -> DatasetValue:
    """Take the value of the true weights and the percentiles of the resamples (Efron 1979)."""
    true, resampled = float(values[0]), values[1:][np.isfinite(values[1:])]
    if not np.isfinite(true):
        return DatasetValue(n=n)
    if n < 2 or not len(resampled):
        return DatasetValue(true, None, n)
    low, high = (float(end) for end in np.quantile(resampled, [TAIL, 1 - TAIL]))
    if resampled.min() == resampled.max() == true and np.isfinite([metric["low"], metric["high"]]).all():
        same = Mean(true, error=0.0, skew=0.0, df=n - 1, draws=n, low=metric["low"], high=metric["high"])
        return DatasetValue(true, Interval(*same.interval(), "bounded"), n)
    return DatasetValue(true, Interval(min(low, true), max(high, true), "bootstrap"), n)


def _fill_examples(connection: DuckDBPyConnection, model_id: int, details: Details) -> Details:
    """Return details whose examples have their annotations and the size of their item.

    Args:
        details: Details of an evaluator; examples may name annotations by their positions in the row's lists.
    """
    examples = details.get("examples", ())[:MOST_EXAMPLES]
    if not examples:
        return details
    cases = list(dict.fromkeys(example["case"] for example in examples))
    lines = connection.execute(sql("aggregate/example_rows"), {"cases": cases, "model_id": model_id}).fetchall()
    rows = {case: rest for case, *rest in lines}
    filled = [_filled(example, *rows.get(example["case"], (None, None, None, None))) for example in examples]
    return {**details, "examples": filled}


def _filled(
    example: Example, expected: str | None, predicted: str | None, case_metadata: str | None, row_metadata: str | None
) -> Example:
    out: Example = {
        **example,
        "expected": _annotations(example.get("expected", ()), expected),
        "predicted": _annotations(example.get("predicted", ()), predicted),
    }
    size = _size(*(orjson.loads(text) for text in (case_metadata, row_metadata) if text))
    if size:
        out["size"] = size
    return out


def _annotations(named: Sequence[Annotation | int], text: str | None) -> list[Annotation | int]:
    """Return annotations in place of positions in a row's list; positions out of range are dropped."""
    listed = cast("list[Annotation]", orjson.loads(text)) if text and any(type(one) is int for one in named) else []
    found = [listed[one] if type(one) is int else one for one in named if type(one) is not int or one < len(listed)]
    return found[:MOST_SHOWN]


def _size(*metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return width and height of an item if its metadata has them as positive numbers that can be drawn."""
    merged: dict[str, Any] = {}
    for one in metadata:
        merged |= one
    width, height = merged.get("width"), merged.get("height")
    if not isinstance(width, int | float) or not isinstance(height, int | float):
        return None
    return (width, height) if 0 < width <= _LARGEST and 0 < height <= _LARGEST else None
