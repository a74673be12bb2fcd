"""An index over all segments of a model: the place of each vector, in 24 bytes.

The index is a few sorted arrays. Each new segment becomes one, and those of about equal length are merged, so that
looking up takes few searches, and adding many segments one by one takes no time that grows with their square.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Places of vectors: digests in ascending order, and for each the segment's number and the row in it."""

    digests: npt.NDArray[np.bytes_]
    segments: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.digests)

    def taken(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> _Sorted:
        return _Sorted(self.digests[places], self.segments[places], self.rows[places])


class VectorIndex:
    """Finds vectors by the digests of their texts; a digest may be in several segments."""

    def __init__(self) -> None:
        self._parts: list[_Sorted] = []

    def add(self, number: int, digests: npt.NDArray[np.bytes_]) -> None:
        """Add a segment.

        Args:
            number: What :meth:`find` calls it.
            digests: The digests in the order of its rows.
        """
        order = np.argsort(digests, kind="stable")
        part = _Sorted(digests[order], np.full(len(order), number, np.int32), order.astype(np.int32))
        while self._parts and len(self._parts[-1]) <= 2 * len(part):
            part = _merged(self._parts.pop(), part)
        if len(part):
            self._parts.append(part)

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget segments."""
        if not numbers:
            return
        kept = [part.taken(~np.isin(part.segments, np.asarray(numbers, np.int32))) for part in self._parts]
        self._parts = [part for part in kept if len(part)]

    def find(self, wanted: npt.NDArray[np.bytes_]) -> Iterator[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.int32]]]:
        """Return the places of those digests that are in some segment, by segment.

        Args:
            wanted: Digests.

        Yields:
            A segment's number, positions in ``wanted``, and the row of each, in ascending order.
        """
        segments = np.full(len(wanted), -1, np.int32)
        rows = np.zeros(len(wanted), np.int32)
        for part in self._parts:
            open_ = np.flatnonzero(segments < 0)
            at = np.minimum(np.searchsorted(part.digests, wanted[open_]), len(part) - 1)
            hit = part.digests[at] == wanted[open_]
            segments[open_[hit]] = part.segments[at[hit]]
            rows[open_[hit]] = part.rows[at[hit]]
        order = np.lexsort((rows, segments))
        order = order[segments[order] >= 0]
        for places in np.split(order, np.flatnonzero(np.diff(segments[order])) + 1):
            if len(places):
                yield int(segments[places[0]]), places, rows[places]


def as_array(digests: Sequence[bytes]) -> npt.NDArray[np.bytes_]:
    """Return digests as fixed-width strings: numpy ignores trailing NULs, which at one length confuses no two."""
    return np.frombuffer(b"".join(digests), dtype=f"S{DIGEST_BYTES}")


def _merged(first: _Sorted, second: _Sorted) -> _Sorted:
    both = _Sorted(
        np.concatenate([first.digests, second.digests]),
        np.concatenate([first.segments, second.segments]),
        np.concatenate([first.rows, second.rows]),
    )
    return both.taken(np.argsort(both.digests, kind="stable"))
