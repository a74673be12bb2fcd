"""Run-length encoding of masks as COCO does it: runs of zeros and ones in turn, column by column, zeros first.

The counts are either a list of run lengths or COCO's text of them: each count as groups of five bits, least first, in
characters from ``0`` on whose sixth bit says that more follow; from the fourth count on the difference to the last
but one is written (``rleToString`` in pycocotools' maskApi.c). pycocotools itself is only compared with in tests: for
counts that do not fill their mask it returns uninitialised memory, and to read annotations every installation would
need it compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ZERO: Final = 48
_MORE: Final = 0x20
_MOST_GROUPS: Final = 7
"""Groups of one count: 35 bits, more than any mask has pixels."""


def decode_counts(counts: str | Sequence[int]) -> npt.NDArray[np.int64]:
    """Return run lengths as an array.

    Raises:
        ValueError: The text is not in COCO's encoding, or a count is negative or not an integer.
    """
    return decode_many([counts])[1]


def decode_many(masks: Sequence[str | Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the run lengths of many masks, decoded together, which is about twice as fast.

    Returns:
        How many runs each mask has, and the run lengths of all masks one after another.

    Raises:
        ValueError: A text is not in COCO's encoding, or a count is negative or not an integer.
    """
    import numpy as np

    texts = [counts for counts in masks if isinstance(counts, str)]
    if len(texts) == len(masks):
        number, runs = _decode_texts(texts)
    else:
        each = [_decode_texts([counts])[1] if isinstance(counts, str) else _integers(counts) for counts in masks]
        number, runs = np.array([len(one) for one in each], dtype=np.int64), np.concatenate(each)
    if runs.size and int(runs.min()) < 0:
        raise ValueError("a count is negative")
    return number, runs


def _integers(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    import numpy as np

    runs = np.asarray(counts)
    if runs.size and runs.dtype.kind not in "iu":
        raise ValueError("the counts are not whole numbers")
    return runs.astype(np.int64).reshape(-1)


def _decode_texts(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    import numpy as np

    try:
        codes = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).astype(np.int64) - _ZERO
    except UnicodeEncodeError:
        raise ValueError("the counts are no text of COCO's encoding") from None
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    if not codes.size:
        return np.zeros(len(texts), dtype=np.int64), codes
    last = (codes & _MORE) == 0
    until = np.cumsum(lengths)
    if int(codes.min()) < 0 or int(codes.max()) > 0x3F or not last[until[lengths > 0] - 1].all():
        raise ValueError("the counts are no text of COCO's encoding")
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    groups = ends - starts + 1
    if int(groups.max()) > _MOST_GROUPS:
        raise ValueError("a count is too large")
    place = np.arange(len(codes)) - np.repeat(starts, groups)
    values = np.add.reduceat((codes & 0x1F) << (5 * place), starts)
    values -= np.where(codes[ends] & 0x10, np.int64(1) << (5 * groups), 0)
    number = np.diff(np.searchsorted(ends, until), prepend=0)
    return number, _undone(values, number)


def _undone(values: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Undo the differences: from a mask's fourth count on, each is that to the last but one.

    The second, fourth, … counts of a mask are one running sum, the third, fifth, … another; the first stands alone.
    """
    import numpy as np

    mask = np.repeat(np.arange(len(number)), number)
    index = np.arange(len(values)) - np.repeat(np.cumsum(number) - number, number)
    series = 3 * mask + np.where(index == 0, 0, 2 - index % 2)
    order = np.argsort(series, kind="stable")
    running = np.concatenate(([0], np.cumsum(values[order])))
    begin = np.searchsorted(series[order], series[order])
    out = np.empty_like(values)
    out[order] = running[1:] - running[begin]
    return out


def encode_counts(runs: Sequence[int] | npt.NDArray[np.int64]) -> str:
    """Return run lengths as COCO's text."""
    out = bytearray()
    counts = [int(count) for count in runs]
    for index, count in enumerate(counts):
        value = count - counts[index - 2] if index > 2 else count
        while True:
            group = value & 0x1F
            value >>= 5
            more = value != -1 if group & 0x10 else value != 0
            out.append((group | _MORE if more else group) + _ZERO)
            if not more:
                break
    return out.decode("ascii")


def decode_mask(size: Sequence[int], counts: str | Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a mask as a boolean array.

    Args:
        size: Height and width.
        counts: Run lengths, or COCO's text of them.

    Raises:
        ValueError: The runs do not fill the mask exactly.
    """
    import numpy as np

    height, width = size
    runs = decode_counts(counts)
    if int(runs.sum()) != height * width:
        raise ValueError(f"the counts fill {int(runs.sum()):,} of {height * width:,} pixels")
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape((height, width), order="F")
