"""The longest substring that a text repeats without overlap, found exactly.

Prefix doubling (Karp, Miller and Rosenberg 1972, https://doi.org/10.1145/800152.804905): every position gets a name
for the ``2^k`` characters that begin there, equal names for equal substrings, and pairs of names make the names for
twice the length. That takes ``O(n log^2 n)`` time and some 100 bytes of memory per character whatever the text is (a
second or two for a million characters), and no hash stands for a substring.

A substring of length L repeats when two of its occurrences begin L or more apart. If it does, so does its prefix of
length L - 1: the lengths that repeat are all those up to the longest, which a binary search finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_START: Final = 8
"""Length that fits into one number where a text has at most 256 kinds of characters; most texts repeat that much."""

T = TypeVar("T")


class Repeat(NamedTuple):
    """The longest repeated substring: its length, and where it stands, left to right and without overlap."""

    length: int
    starts: tuple[int, ...]

    @property
    def covered(self) -> int:
        """Number of characters that its occurrences cover together."""
        return self.length * len(self.starts)


def longest_repeat(text: str) -> Repeat:
    """Return the longest substring that occurs at least twice without overlap.

    Among equally long ones the one with the most occurrences without overlap is taken, then the one that comes
    first. The length is 0 when no character occurs twice.
    """
    size = len(text)
    starts = np.arange(size, dtype=np.int64)
    known, named = _START, _name(_words(text), starts[: max(0, size - _START + 1)], _START)
    if named is None:
        known, named = 1, _name(_characters(text), starts, 1)
    if named is None:
        return Repeat(0, ())
    while True:
        halves = np.full(size, -1, dtype=np.int64)  # the name of the ``known`` characters from each position, or -1
        halves[named.starts] = named.names
        found = _name_longer(2 * known, known, named, halves)
        if found is None:
            break
        known, named = 2 * known, found
    longest, last = _search(known, 2 * known, named, partial(_name_longer, known=known, named=named, halves=halves))
    return _choose(longest, _groups(last))


def _search(low: int, high: int, found: T, test: Callable[[int], T | None]) -> tuple[int, T]:
    """Return the longest length from ``low`` to ``high - 1`` that passes a test, and what the test found."""
    while high - low > 1:
        middle = (low + high) // 2
        result = test(middle)
        if result is None:
            high = middle
        else:
            low, found = middle, result
    return low, found


def _choose(length: int, groups: Iterable[Sequence[int]]) -> Repeat:
    """Return the group with the most occurrences without overlap, the earliest of equal ones."""
    best: list[int] = []
    for group in sorted(groups, key=lambda group: group[0]):
        if len(group) <= len(best):
            continue
        chosen: list[int] = []
        free = 0
        for start in group:
            if start >= free:
                chosen.append(start)
                free = start + length
        if len(chosen) > len(best):
            best = chosen
    return Repeat(length, tuple(best))


class _Named(NamedTuple):
    """Positions in ascending order at which a repeating substring begins, and which one: a number below their count."""

    starts: npt.NDArray[np.int64]
    names: npt.NDArray[np.int64]


def _characters(text: str) -> npt.NDArray[np.int64]:
    """Return the code points of a text, lone surrogates included."""
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
    return points.astype(np.int64)


def _words(text: str) -> npt.NDArray[np.int64]:
    """Return at each position a number for the next eight characters, or nothing if the text has too many kinds."""
    kinds = set(text)
    if len(kinds) > 256 or len(text) < _START:
        return np.empty(0, dtype=np.int64)
    coded = text.translate({ord(character): number for number, character in enumerate(kinds)})
    codes = np.frombuffer(coded.encode("latin-1"), dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(codes, _START)
    return np.ascontiguousarray(windows).view(np.int64).ravel()


def _name(keys: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], length: int) -> _Named | None:
    """Keep the positions whose substring repeats without overlap, and number the distinct substrings.

    Args:
        keys: Equal for equal substrings, one per position.
        starts: The positions, ascending.
        length: The length of the substrings.
    """
    if len(keys) < 2:
        return None
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    end = np.concatenate((first[1:], [len(keys)]))
    repeats = starts[order[end - 1]] - starts[order[first]] >= length
    if not repeats.any():
        return None
    names = np.empty(len(keys), dtype=np.int64)
    names[order] = np.repeat(np.where(repeats, np.cumsum(repeats) - 1, -1), end - first)
    kept = names >= 0
    return _Named(starts[kept], names[kept])


def _name_longer(length: int, known: int, named: _Named, halves: npt.NDArray[np.int64]) -> _Named | None:
    """Name the repeats of a length between ``known`` and twice that: two names that overlap identify them."""
    starts = named.starts[named.starts <= len(halves) - length]
    second = halves[starts + (length - known)]
    repeats = second >= 0
    starts = starts[repeats]
    return _name(halves[starts] * len(halves) + second[repeats], starts, length)


def _groups(named: _Named) -> list[list[int]]:
    """Return the positions of each repeating substring, ascending."""
    groups: list[list[int]] = [[] for _ in range(int(named.names.max()) + 1)]
    for start, name in zip(named.starts.tolist(), named.names.tolist(), strict=True):
        groups[name].append(start)
    return groups
