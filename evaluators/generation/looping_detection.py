"""Looping: did the model repeat itself while it generated?

The longest substring that a text repeats without overlap is found exactly, by prefix doubling (Karp, Miller and
Rosenberg 1972, https://doi.org/10.1145/800152.804905): every position gets a name for the ``2^k`` characters that begin
there, equal names for equal substrings, and pairs of names make the names for twice the length. That takes
``O(n log^2 n)`` time and some 100 bytes of memory per character whatever the text is (a second or two for a million
characters), and no hash stands for a substring. In a short text stretches are looked for behind themselves instead, a
sixth of the work there.

A substring of length L repeats when two of its occurrences begin L or more apart. If it does, so does its prefix of
length L - 1: the lengths that repeat are all those up to the longest, which a binary search finds.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import NO_EVIDENCE, Evidence, Row, RowField, RowScore, Source, Span, clip
from leadline.evaluators.text.sentences import Sentence

if TYPE_CHECKING:
    import numpy.typing as npt

SHORTEST_SENTENCE: Final = 10
"""Sentences of fewer characters are not counted: list markers, "Yes." and the like."""
SMALLEST_SHARE: Final = 0.1
"""Share of an answer that a repeated substring must cover to be pointed at: every text repeats a few words."""
MOST_SPANS: Final = 20
"""Stretches of a text that are pointed at, of either kind."""


@register
class LoopingDetection(RowEvaluator):
    """Looping: sentences, substrings and bytes that repeat themselves in the answer.

    Method:

    * ``unique_sentences`` = distinct sentences / all sentences, without those of fewer than 10 characters. Sentences
      are equal when they are so character by character. An answer with no sentence of 10 characters scores 1.
    * ``longest_repeated_substring`` = length of the longest substring that occurs at least twice * how often it
      occurs / length of the text, in characters. Occurrences do not overlap, neither for finding the substring nor
      for counting it: only so does the metric keep its range (in "aaaa" the substring "aaa" stands twice with
      overlap and would score 1.5) and mean a share of the text. Among equally long substrings the most frequent
      one counts. An answer without a repeated character, such as the empty one, scores 0.
    * ``compression_ratio`` = length of the zlib-compressed answer (level 9) / length of the answer, in UTF-8 bytes.
      A text of a few dozen bytes grows by compression; its ratio is cut to 1. An empty answer scores 1: there is
      nothing that repeats. Ordinary prose has a ratio of 0.4 to 0.7, the lower the longer it is, so that the default
      threshold of 0.75 fails most long answers: lower it, or read this metric beside the others.

    The evidence points at the sentences that occur more than once, and at the longest repeated substring if it has
    10 characters or more and its occurrences cover a tenth of the answer.

    Source: H2O Sonar, Looping Detection Evaluator. The longest repeated substring is found exactly, in near-linear
    time, by Karp, Miller and Rosenberg 1972.
    """

    spec = Spec(
        id="looping_detection",
        name="Looping Detection Evaluator",
        origin="h2o",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric.higher(
                "unique_sentences",
                "Distinct sentences over all sentences of the answer, those under 10 characters left out.",
                name="Unique Sentences",
                primary=True,
            ),
            Metric.lower(
                "longest_repeated_substring",
                "Share of the answer that the occurrences of its longest repeated substring cover.",
                name="Longest Repeated Substring",
            ),
            Metric.higher(
                "compression_ratio",
                "Size of the answer compressed by zlib at level 9 over its size, in bytes.",
                name="Compression Ratio",
            ),
        ),
        sentences=True,
        keywords=("looping", "repetition", "degeneration"),
        source="H2O Sonar, Looping Detection Evaluator",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the three metrics and the stretches that repeat."""
        text = row.actual_answer or ""
        sentences = [sentence for sentence in ctx.sentences(text) if len(sentence.text) >= SHORTEST_SENTENCE]
        unique = len({sentence.text for sentence in sentences})
        repeat = longest_repeat(text)
        return RowScore(
            {
                "unique_sentences": unique / len(sentences) if sentences else 1.0,
                "longest_repeated_substring": repeat.covered / len(text) if text else 0.0,
                "compression_ratio": compression_ratio(text),
            },
            _evidence(sentences, unique, repeat, len(text)),
        )


def compression_ratio(text: str) -> float:
    """Return the size of the compressed text over its size, in bytes, at most 1; 1 for an empty text."""
    raw = text.encode("utf-8", errors="surrogatepass")
    return clip(len(zlib.compress(raw, 9)) / len(raw), 0.0, 1.0) if raw else 1.0


def _evidence(sentences: list[Sentence], unique: int, repeat: Repeat, size: int) -> Evidence:
    spans: list[Span] = []
    parts: list[str] = []
    if unique < len(sentences):
        times = Counter(sentence.text for sentence in sentences)
        again = [sentence for sentence in sentences if times[sentence.text] > 1]
        spans += [
            Span(Source.ACTUAL_ANSWER, sentence.start, sentence.end, note="repeated sentence")
            for sentence in again[:MOST_SPANS]
        ]
        parts.append(f"{len(sentences) - unique} of {len(sentences)} sentences repeat another")
    if repeat.length >= SHORTEST_SENTENCE and repeat.covered >= SMALLEST_SHARE * size:
        spans += [
            Span(Source.ACTUAL_ANSWER, start, start + repeat.length, note="longest repeated substring")
            for start in repeat.starts[:MOST_SPANS]
        ]
        parts.append(f"{repeat.length} characters occur {len(repeat.starts)} times")
    return Evidence("; ".join(parts) + ".", tuple(spans)) if parts else NO_EVIDENCE


_START: Final = 8
"""Length that fits into one number where a text has at most 256 kinds of characters; most texts repeat that much."""

_SHORT: Final = 1_000
"""Characters up to which searching a text is sooner done than starting some fifty operations on arrays."""

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
    return repeat_in_short(text) if len(text) <= _SHORT else repeat_in_long(text)


def repeat_in_short(text: str) -> Repeat:
    """Find what :func:`longest_repeat` does by looking behind each stretch for another of it, in quadratic time."""
    length, first, start = 1, dict[str, int](), 0
    while start + 2 * length <= len(text):
        end, middle = start + length, start + length // 2
        if text.find(text[middle:end], end) < 0:
            start = middle + 1  # no stretch of this length that contains the half repeats either
            continue
        if text.find(text[start:end], end) >= 0:
            while text.find(text[start : start + length + 1], start + length + 1) >= 0:
                length += 1
                first = {}
            first.setdefault(text[start : start + length], start)
        start += 1
    if not first:
        return Repeat(0, ())
    longest = max(first, key=text.count)
    starts = [first[longest]]
    while (start := text.find(longest, starts[-1] + length)) >= 0:
        starts.append(start)
    return Repeat(length, tuple(starts))


def repeat_in_long(text: str) -> Repeat:
    """Find what :func:`longest_repeat` does, in near-linear time."""
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
