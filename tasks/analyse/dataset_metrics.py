"""Metrics that have no value per row: computed over all rows of a model, with a bootstrap interval."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.details import Details
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import Json
from leadline.tasks.analyse.example_annotations import fill_examples
from leadline.tasks.analyse.statistics import CONFIDENCE, Interval, rule_of_three
from leadline.tasks.db.connection import sql
from leadline.tasks.db.tables import replace_lines

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

log = logging.getLogger("leadline.aggregate")

SEED: Final = 20240601
_MOST_CELLS: Final = 4_000_000  # of one block of resamples: 32 MB


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
    connection: DuckDBPyConnection,
    metrics: Sequence[Mapping[str, Any]],
    effect: Mapping[tuple[int, int], float],
) -> dict[tuple[int, int], DatasetValue]:
    """Compute dataset-level and pooled metrics by (metric_id, model_id), and fill the table ``details``.

    Args:
        connection: The run.
        metrics: Lines of the table ``metrics``, all dataset-level or pooled.
        effect: Design effect by (evaluator_id, model_id); resamples are that much smaller, so that perturbed copies
            of a case do not pass for independent rows.
    """
    out: dict[tuple[int, int], DatasetValue] = {}
    details = []
    for evaluator_id, model_id in connection.execute(sql("aggregate/payload_groups")).fetchall():
        payloads = _payloads(connection, evaluator_id, model_id)
        wanted = [metric for metric in metrics if metric["evaluator_id"] == evaluator_id]
        values, said = _guarded(connection, evaluator_id, wanted, payloads, effect.get((evaluator_id, model_id), 1.0))
        out |= {(metric_id, model_id): value for metric_id, value in values.items()}
        if said is not None:
            filled = fill_examples(connection, model_id, said)
            line = {"evaluator_id": evaluator_id, "model_id": model_id, "details": orjson.dumps(filled).decode()}
            details.append(line)
    replace_lines(connection, "details", details)
    return out


def _payloads(connection: DuckDBPyConnection, evaluator_id: int, model_id: int) -> Payloads:
    import numpy as np

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
    """One evaluator's crash leaves its metrics unscored and no others."""
    n = round(float(payloads.weights.sum()))
    name, params = connection.execute(
        "SELECT evaluator, params FROM evaluators WHERE evaluator_id = ?", [evaluator_id]
    ).fetchall()[0]
    try:
        kind = get(name)
        evaluator = kind(kind.parameters.build(name, json.loads(params)))
        prepared = evaluator.prepare(payloads.values)
        resampled = resample(evaluator, prepared, payloads.weights, max(1, round(n / max(effect, 1.0))))
        values = {metric["metric_id"]: _value(resampled[metric["metric"]], n, metric) for metric in metrics}
        return values, evaluator.details(prepared, payloads.weights, payloads.cases)
    except Exception:
        log.exception("%s failed to compute its dataset-level metrics", name)
        return {metric["metric_id"]: DatasetValue(n=n, failed=True) for metric in metrics}, None


def resample(
    evaluator: Evaluator, prepared: Any, weights: npt.NDArray[np.float64], size: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Aggregate the true weights, then multinomial resamples of ``size`` rows, in blocks."""
    import numpy as np

    random = np.random.default_rng(SEED)
    blocks = [evaluator.aggregate(prepared, weights[np.newaxis, :])]
    per_block = max(1, _MOST_CELLS // len(weights))
    resamples = evaluator.resamples(prepared)
    for start in range(0, resamples, per_block):
        number = min(per_block, resamples - start)
        drawn = random.multinomial(size, weights / weights.sum(), size=number).astype(np.float64)
        blocks.append(evaluator.aggregate(prepared, drawn))
    return {metric: np.concatenate([block[metric] for block in blocks]) for metric in blocks[0]}


def _value(values: npt.NDArray[np.float64], n: int, metric: Mapping[str, Any]) -> DatasetValue:
    """Take the value of the true weights and the percentiles of the resamples (Efron 1979)."""
    import numpy as np

    true, resampled = float(values[0]), values[1:][np.isfinite(values[1:])]
    if not np.isfinite(true):
        return DatasetValue(n=n)
    if n < 2 or not len(resampled):
        return DatasetValue(true, None, n)
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(end) for end in np.quantile(resampled, [tail, 1 - tail]))
    if resampled.min() == resampled.max() == true and np.isfinite([metric["low"], metric["high"]]).all():
        return DatasetValue(true, Interval(*rule_of_three(true, n, metric["low"], metric["high"]), "rule_of_three"), n)
    return DatasetValue(true, Interval(min(low, true), max(high, true), "bootstrap"), n)
