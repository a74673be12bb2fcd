"""The payload of an image: its predictions and ground truth and how they were matched, as short JSON.

Lines are packed as base64 of little-endian records: some 25 characters a prediction. Labels are written once per image
as ``{key: [value, …]}`` and numbered in that order.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from leadline.evaluators.data import Json, LabelName

if TYPE_CHECKING:
    import numpy.typing as npt

Records: TypeAlias = "npt.NDArray[np.void]"

RIGHT: Final = 1
"""Bit of ``how``: the prediction overlaps a ground truth of its label (by the IoU of the curves)."""

WRONG: Final = 2
"""Bit of ``how``: it overlaps a ground truth of another label of its key."""

NEVER: Final = -1.0
"""Score of a ground truth that no prediction overlaps."""


def prediction_type(thresholds: int) -> np.dtype[np.void]:
    """Return the record of a prediction.

    ``label`` and ``index`` (its place in the row's annotations), ``score``, the bits ``hits`` and ``ignored`` by IoU
    threshold, and ``how``.
    """
    bits = next(f"<u{size}" for size in (2, 4, 8) if thresholds <= 8 * size)
    return np.dtype(
        [("label", "<u4"), ("index", "<u4"), ("score", "<f8"), ("hits", bits), ("ignored", bits), ("how", "u1")]
    )


def truth_type() -> np.dtype[np.void]:
    """Return the record of a ground truth.

    ``label`` and ``index``, the highest score of a prediction that overlaps it with its label (``right``) and with
    another (``wrong``), and the line of its prediction in the confusion matrix, -1 for none.
    """
    return np.dtype([("label", "<u4"), ("index", "<u4"), ("right", "<f8"), ("wrong", "<f8"), ("partner", "<i4")])


def pack(names: Sequence[LabelName], predictions: Records, truth: Records) -> Json:
    """Return the payload of an image from its records, whose labels are numbers of ``names``.

    Args:
        names: Labels by number.
        truth: Records of the ground truth.
    """
    used = np.unique(np.concatenate([predictions["label"], truth["label"]])).tolist()
    used.sort(key=lambda label: names[label])
    labels: dict[str, list[str]] = {}
    for label in used:
        key, value = names[label]
        labels.setdefault(key, []).append(value)
    place = np.zeros(max(used, default=0) + 1, dtype=np.uint32)
    place[used] = np.arange(len(used))
    return {
        "labels": labels,
        "predictions": _packed(predictions, place),
        "truth": _packed(truth, place),
    }


def _packed(records: Records, place: npt.NDArray[np.uint32]) -> str:
    out = records.copy()
    out["label"] = place[out["label"]]
    return base64.b64encode(out.tobytes()).decode("ascii")


def unpack(
    payloads: Sequence[Mapping[str, Any]], kinds: Mapping[str, np.dtype[np.void]]
) -> tuple[list[LabelName], dict[str, tuple[npt.NDArray[np.int64], Records]]]:
    """Return the labels of all payloads, and for each kind the payload and the record of each line.

    Args:
        payloads: What :func:`pack` made.
        kinds: The records' types by member.
    """
    numbers: dict[LabelName, int] = {}
    parts: dict[str, list[Records]] = {kind: [] for kind in kinds}
    for payload in payloads:
        names = [(key, value) for key, values in payload["labels"].items() for value in values]
        place = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.uint32)
        for kind, record in kinds.items():
            lines = np.frombuffer(base64.b64decode(payload[kind]), dtype=record).copy()
            if len(lines):
                lines["label"] = place[lines["label"]]
            parts[kind].append(lines)
    joined = {}
    for kind, record in kinds.items():
        lengths = [len(lines) for lines in parts[kind]]
        owner = np.repeat(np.arange(len(payloads)), lengths)
        joined[kind] = (owner, np.concatenate(parts[kind]) if parts[kind] else np.empty(0, dtype=record))
    return list(numbers), joined
