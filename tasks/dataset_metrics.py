"""Metrics that have no value per row: computed over all rows of a model, with a bootstrap interval."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evaluators.base import Evaluator
from evaluators.registry import get
from tasks.db import sql
from tasks.statistics import CONFIDENCE, Interval, rule_of_three
from tasks.tables import records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

log = logging.getLogger("leadline.aggregate")

RESAMPLES: Final = 1000
SEED: Final = 20240601
_MOST_CELLS: Final = 4_000_000  # of one block of resamples: 32 MB


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
    """Compute dataset-level metrics by (metric_id, model_id).

    Args:
        connection: The run.
        metrics: Lines of the table ``metrics``, all dataset-level.
        effect: Design effect by (evaluator_id, model_id); resamples are that much smaller, so that perturbed copies
            of a case do not pass for independent rows.
    """
    groups: defaultdict[tuple[int, int], list[tuple[str, float]]] = defaultdict(list)
    for line in records(connection, sql("aggregate/payloads")):
        groups[line["evaluator_id"], line["model_id"]].append((line["payload"], line["weight"]))
    out: dict[tuple[int, int], DatasetValue] = {}
    for (evaluator_id, model_id), payloads in groups.items():
        wanted = [metric for metric in metrics if metric["evaluator_id"] == evaluator_id]
        values = _guarded(connection, evaluator_id, wanted, payloads, effect.get((evaluator_id, model_id), 1.0))
        out |= {(metric_id, model_id): value for metric_id, value in values.items()}
    return out


def _guarded(
    connection: DuckDBPyConnection,
    evaluator_id: int,
    metrics: Sequence[Mapping[str, Any]],
    payloads: Sequence[tuple[str, float]],
    effect: float,
) -> dict[int, DatasetValue]:
    """One evaluator's crash leaves its metrics unscored and no others."""
    n = round(sum(weight for _, weight in payloads))
    name, params = connection.execute(
        "SELECT evaluator, params FROM evaluators WHERE evaluator_id = ?", [evaluator_id]
    ).fetchall()[0]
    try:
        kind = get(name)
        evaluator = kind(kind.parameters.build(name, json.loads(params)))
        resampled = _resample(evaluator, payloads, max(1, round(n / max(effect, 1.0))))
        return {metric["metric_id"]: _value(resampled[metric["metric"]], n, metric) for metric in metrics}
    except Exception:
        log.exception("%s failed to compute its dataset-level metrics", name)
        return {metric["metric_id"]: DatasetValue(n=n, failed=True) for metric in metrics}


def _resample(
    evaluator: Evaluator, payloads: Sequence[tuple[str, float]], size: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Aggregate the true weights, then :data:`RESAMPLES` multinomial resamples of ``size`` rows, in blocks."""
    import numpy as np

    parsed = [json.loads(payload) for payload, _ in payloads]
    weights = np.array([weight for _, weight in payloads], dtype=np.float64)
    random = np.random.default_rng(SEED)
    blocks = [evaluator.aggregate(parsed, weights[np.newaxis, :])]
    per_block = max(1, _MOST_CELLS // len(parsed))
    for start in range(0, RESAMPLES, per_block):
        number = min(per_block, RESAMPLES - start)
        drawn = random.multinomial(size, weights / weights.sum(), size=number).astype(np.float64)
        blocks.append(evaluator.aggregate(parsed, drawn))
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
