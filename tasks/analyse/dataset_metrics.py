"""Dataset-level metrics: computed over all rows of a model, or from its comparisons, with intervals."""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import orjson

from leadline.evaluators.core import Evaluator, find, get
from leadline.evaluators.data import (
    MOST_EXAMPLES,
    MOST_LABELS,
    MOST_SHOWN,
    Annotation,
    Details,
    Example,
    Json,
    LabelValues,
    Order,
)
from leadline.evaluators.ground import count
from leadline.tasks.analyse.pair_records import JudgedPair, read_pairs
from leadline.tasks.db import replace_lines, sql
from leadline.tasks.statistics.bounded_mean import TAIL, Mean
from leadline.tasks.statistics.bradley_terry import PairComparison, Strength, strengths
from leadline.tasks.statistics.statistics import Interval, Method

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection


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


def model_strengths(pairs: Sequence[JudgedPair]) -> dict[str, Strength]:
    """Return each model's strength by its key; none where comparisons do not connect all models."""
    models = sorted({model for pair in pairs for model in (pair.one, pair.other)})
    place = {model: at for at, model in enumerate(models)}
    games = [PairComparison(place[pair.one], place[pair.other], pair.score, pair.cluster) for pair in pairs]
    found = strengths(games, len(models)) if games else None
    return dict(zip(models, found, strict=True)) if found else {}


@dataclass
class _Record:
    """Comparisons of a model and how they ended; trials count in shares."""

    compared: int = 0
    won: float = 0.0
    lost: float = 0.0
    inconsistent: float = 0.0
    asked: float = 0.0

    def add(self, pair: JudgedPair, *, turned: bool) -> None:
        self.compared += 1
        self.won += pair.lost if turned else pair.won
        self.lost += pair.won if turned else pair.lost
        self.inconsistent += pair.inconsistent
        self.asked += pair.asked

    def values(self) -> dict[str, float | int | None]:
        halves = self.compared - self.won - self.lost
        return {
            "compared": self.compared,
            "won": _plain(self.won),
            "lost": _plain(self.lost),
            "tied": _plain(halves - self.inconsistent),
            "inconsistent": _plain(self.inconsistent),
            "win rate": (self.won + halves / 2) / self.compared if self.compared else None,
        }


def _plain(number: float) -> float | int:
    """Return a whole number as such: without trials all are."""
    return round(number) if abs(number - round(number)) < 1e-9 else round(number, 3)


def pair_tables(pairs: Sequence[JudgedPair]) -> dict[str, Details]:
    """Return for each model, by its key, a table of how it fared against each other one, and against all."""
    records: defaultdict[str, defaultdict[str, _Record]] = defaultdict(lambda: defaultdict(_Record))
    for pair in pairs:
        for model, rival, turned in ((pair.one, pair.other, False), (pair.other, pair.one, True)):
            records[model][rival].add(pair, turned=turned)
            records[model][""].add(pair, turned=turned)
    note = order_note(pairs)
    return {
        model: Details(
            labels=[
                LabelValues(key="rival", value=rival, values=record.values())
                for rival, record in sorted(mine.items())[: MOST_LABELS + 1]
            ],
            notes=[note, "Ties and inconsistent pairs count half in the win rate."],
        )
        for model, mine in sorted(records.items())
    }


def order_note(pairs: Sequence[JudgedPair]) -> str:
    """Return in a sentence how often the order of the answers decided, in the comparisons of all models."""
    asked = sum(pair.asked for pair in pairs)
    shares = {order: sum(pair.orders.get(order, 0.0) for pair in pairs) for order in Order}
    first, second = shares[Order.FIRST], shares[Order.SECOND]
    return (
        f"The judge compared {count(round(asked), 'pair')} of answers in both orders, those of all models together: in "
        f"{first:.4g} it preferred whichever came first, in {second:.4g} whichever came second, and in "
        f"{shares[Order.MIXED]:.4g} one order was a tie."
    )
