"""Segments: the immutable Parquet files that scores are kept in.

A segment belongs to one evaluator in one configuration and contains complete rows only, one line per (key, trial):
``key``, ``trial``, a column ``m:<metric>`` per metric, and ``evidence``, ``flags``, ``payload`` and ``unscorable`` (the
metrics that this row can never have, each with the reason) as JSON or null.
What could not be scored goes to the run's own ``unscored`` folder, one line per metric, and is tried again next time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import orjson

from leadline.evaluators.data import NotApplicable, Reason, RowScore, Unscored
from leadline.evaluators.ground import clean, masked

if TYPE_CHECKING:
    import pyarrow as pa

METRIC_PREFIX: Final = "m:"


@dataclass(frozen=True, slots=True)
class StoredScore:
    """A row's score in its stored form.

    Attributes:
        values: As in :class:`~leadline.evaluators.data.row.RowScore`, all numbers as floats.
        complete: As in :class:`~leadline.evaluators.data.row.RowScore`.
        evidence: JSON, ``None`` when there is none; so are the other two.
        flags: JSON.
        payload: JSON.
    """

    values: Mapping[str, float | Unscored | NotApplicable]
    complete: bool
    evidence: str | None
    flags: str | None
    payload: str | None

    @property
    def failures(self) -> list[Unscored]:
        """The reasons why metrics could not be measured."""
        return [value for value in self.values.values() if isinstance(value, Unscored)]


def read_evidence(evidence: str | None) -> dict[str, Any]:
    """Return stored evidence as :meth:`.Evidence.to_json` gave it, empty where there is none."""
    return dict(orjson.loads(evidence)) if evidence else {}


def calls_of(evidence: str | None) -> tuple[str, ...]:
    """Return the digests of the judge calls that stored evidence names."""
    return tuple(read_evidence(evidence).get("data", {}).get("calls", ()))


def stored(score: RowScore) -> StoredScore:
    """Return a score in its stored form, after checking that it can be stored.

    Raises:
        TypeError: A value is not a number, or the evidence or the payload is not JSON.
        ValueError: An unknown reason, or JSON that contains itself.
        OverflowError: An integer too large for a float.
        AttributeError: A part has the wrong type.
    """
    plain = set(map(type, score.values.values())) <= {float}  # as most are
    return StoredScore(
        score.values if plain else {metric: _stored_value(metric, value) for metric, value in score.values.items()},
        complete=plain or score.complete,
        evidence=_dump(score.evidence.to_json()) if score.evidence else None,
        flags=_dump([flag.to_json() for flag in score.flags]) if score.flags else None,
        payload=_dump(score.payload),
    )


def _stored_value(metric: str, value: object) -> float | Unscored | NotApplicable:
    if type(value) is float or isinstance(value, NotApplicable):
        return value
    if isinstance(value, Unscored):
        return Unscored(Reason(value.reason), clean(masked(value.message)))
    if isinstance(value, Real):  # integers, booleans, and the numbers of NumPy
        return float(value)
    text = repr(value)
    raise TypeError(f"{text if len(text) <= 80 else text[:79] + '…'} is not a value of {metric}")


def segment_rows(metrics: Sequence[str], keys: Sequence[bytes], scores: Sequence[StoredScore], trial: int) -> pa.Table:
    """Return complete rows as the table of a segment.

    Args:
        scores: The rows' scores; a metric that does not apply or cannot be measured becomes null.
    """
    columns: dict[str, _Column] = {
        "key": (keys, "binary"),
        "trial": ([trial] * len(keys), "uint8"),
        **_explanations(scores),
        "payload": ([score.payload for score in scores], "string"),
        "unscorable": ([_dump(_unscorable(score)) for score in scores], "string"),
    }
    for metric in metrics:
        values = [score.values[metric] for score in scores]
        known = [value if type(value) is float else None for value in values]
        columns[METRIC_PREFIX + metric] = (known, "float64")
    return _table(columns)


def unscored_rows(evaluator_id: int, keys: Sequence[bytes], scores: Sequence[StoredScore], trial: int) -> pa.Table:
    """Return rows with at least one metric that could not be measured, a line for each metric."""
    lines = [
        (key, metric, value, score)
        for key, score in zip(keys, scores, strict=True)
        for metric, value in score.values.items()
    ]
    failed = [value if isinstance(value, Unscored) else None for _, _, value, _ in lines]
    return _table(
        {
            "evaluator_id": ([evaluator_id] * len(lines), "uint16"),
            "key": ([line[0] for line in lines], "binary"),
            "trial": ([trial] * len(lines), "uint8"),
            "metric": ([line[1] for line in lines], "string"),
            "value": ([line[2] if isinstance(line[2], float) else None for line in lines], "float64"),
            "reason": ([None if one is None else one.reason.value for one in failed], "string"),
            "message": ([None if one is None else one.message for one in failed], "string"),
            **_explanations([line[3] for line in lines]),
        }
    )


_Column: TypeAlias = tuple[Sequence[Any], Literal["binary", "float64", "string", "uint8", "uint16"]]
"""Values of a column, and their type in Arrow."""


def _table(columns: Mapping[str, _Column]) -> pa.Table:
    from leadline.tasks.ground.arrow_arrays import table_of

    return table_of(columns)


def _explanations(scores: Sequence[StoredScore]) -> dict[str, _Column]:
    return {
        "evidence": ([score.evidence for score in scores], "string"),
        "flags": ([score.flags for score in scores], "string"),
    }


def _unscorable(score: StoredScore) -> dict[str, str] | None:
    return {key: value.message for key, value in score.values.items() if isinstance(value, Unscored)} or None


def _dump(value: object) -> str | None:
    """Return JSON, ``None`` for nothing; NaN and the infinities, which JSON does not have, become null."""
    if value is None:
        return None
    try:
        return orjson.dumps(value, default=_number).decode()
    except orjson.JSONEncodeError:  # lone surrogates, which UTF-8 cannot encode; keys that are numbers; long integers
        return clean(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=_number))


def _finite(value: Any) -> Any:
    """Return a JSON value with null where it is NaN or infinite."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: object) -> bool | int | float | None:
    """Return the Python number of a NumPy scalar; anything else is not JSON."""
    import numpy as np

    if isinstance(value, np.bool_ | np.integer | np.floating):
        number: bool | int | float = value.item()
        return number if math.isfinite(number) else None
    raise TypeError(f"{type(value).__name__} is not JSON")
