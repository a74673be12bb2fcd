"""Segments: the immutable Parquet files that scores are kept in.

A segment belongs to one evaluator in one configuration and holds complete rows only, one line per (key, trial):
``key``, ``trial``, a column ``m:<metric>`` per metric, and ``evidence``, ``flags``, ``payload`` and ``unscorable`` (the
metrics that this row can never have, each with the reason) as JSON or null.
What could not be scored goes to the run's own ``unscored`` folder, one line per metric, and is tried again next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from evaluators.types import Json, NotApplicable, RowScore, Unscored
from tasks.store import replacing

if TYPE_CHECKING:
    import pyarrow as pa

METRIC_PREFIX: Final = "m:"


def write_segment(
    path: Path, metrics: Sequence[str], keys: Sequence[bytes], scores: Sequence[RowScore], *, trial: int = 0
) -> None:
    """Write complete rows; an existing segment of that name is replaced by an equal one.

    Args:
        path: The segment's file.
        metrics: Keys of the evaluator's per-row metrics.
        keys: The rows' keys.
        scores: The rows' scores; a metric that does not apply or cannot be measured is stored as null.
        trial: Which repetition they are.
    """
    import pyarrow as pa

    columns: dict[str, pa.Array] = {
        "key": pa.array(keys, pa.binary()),
        "trial": pa.array([trial] * len(keys), pa.uint8()),
        **_said(scores),
        "payload": pa.array([_dump(score.payload) for score in scores], pa.string()),
        "unscorable": pa.array([_dump(_unscorable(score)) for score in scores], pa.string()),
    }
    for metric in metrics:
        values = [score.values[metric] for score in scores]
        columns[METRIC_PREFIX + metric] = pa.array(
            [None if isinstance(value, NotApplicable | Unscored) else value for value in values], pa.float64()
        )
    _write(path, pa.table(columns))


def write_unscored(path: Path, lines: Sequence[tuple[int, int, bytes, RowScore]]) -> None:
    """Write rows with at least one metric that could not be measured.

    Args:
        path: The file.
        lines: For each row the evaluator's number, the trial, the key, and the score.
    """
    import pyarrow as pa

    flat = [
        (evaluator_id, trial, key, metric, value, score)
        for evaluator_id, trial, key, score in lines
        for metric, value in score.values.items()
    ]
    failed = [value if isinstance(value, Unscored) else None for *_, value, _ in flat]
    _write(
        path,
        pa.table(
            {
                "evaluator_id": pa.array([line[0] for line in flat], pa.uint16()),
                "key": pa.array([line[2] for line in flat], pa.binary()),
                "trial": pa.array([line[1] for line in flat], pa.uint8()),
                "metric": pa.array([line[3] for line in flat], pa.string()),
                "value": pa.array(
                    [line[4] if isinstance(line[4], float | int) else None for line in flat], pa.float64()
                ),
                "reason": pa.array([None if one is None else one.reason.value for one in failed], pa.string()),
                "message": pa.array([None if one is None else clean(one.message) for one in failed], pa.string()),
                **_said([line[5] for line in flat]),
            }
        ),
    )


def _said(scores: Sequence[RowScore]) -> dict[str, pa.Array]:
    import pyarrow as pa

    return {
        "evidence": pa.array([_dump(score.evidence.to_json() or None) for score in scores], pa.string()),
        "flags": pa.array([_dump([flag.to_json() for flag in score.flags] or None) for score in scores], pa.string()),
    }


def _unscorable(score: RowScore) -> dict[str, Json] | None:
    return {key: value.message for key, value in score.values.items() if isinstance(value, Unscored)} or None


def _dump(value: Json) -> str | None:
    if value is None:
        return None
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot hold
        import json

        return clean(json.dumps(value, ensure_ascii=False))


def clean(text: str) -> str:
    """Replace lone surrogates, which no file format can hold."""
    return text.encode("utf-8", "replace").decode()


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
