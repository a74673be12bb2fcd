"""N-grams of token lists, counted once, and BLEU from the counts."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

_NO_MATCH: Final = math.log(sys.float_info.min)
"""NLTK takes the smallest normal float for a precision of zero, unless it is the one of the unigrams."""
_NOTHING: Final = 1e-50
"""BLEU below which an order had no match: matches of the longest texts that are read give more."""


class NGrams:
    """The tokens of one text and, counted when first asked for, its n-grams."""

    __slots__ = ("_counts", "tokens")

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._counts: dict[int, Counter[str] | Counter[tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def total(self, n: int) -> int:
        """Return the number of n-grams."""
        return max(0, len(self.tokens) - n + 1)

    def counts(self, n: int) -> Mapping[object, int]:
        """Return how often each n-gram occurs; the keys are strings for n = 1, else tuples."""
        found = self._counts.get(n)
        if found is None:
            tokens = self.tokens
            found = Counter(tokens) if n == 1 else Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
            self._counts[n] = found
        return found  # type: ignore[return-value]


def matches(hypothesis: NGrams, references: Sequence[NGrams], n: int) -> int:
    """Return how many n-grams of the hypothesis stand in a reference, each counted at most as often as there.

    Args:
        hypothesis: The text to score.
        references: The references, at least one.
        n: Words of an n-gram.
    """
    ours = hypothesis.counts(n)
    if len(references) == 1:
        theirs = references[0].counts(n)
        return sum(min(ours[gram], theirs[gram]) for gram in ours.keys() & theirs.keys())
    best: dict[object, int] = {}
    for reference in references:
        theirs = reference.counts(n)
        for gram in ours.keys() & theirs.keys():
            best[gram] = max(best.get(gram, 0), theirs[gram])
    return sum(min(ours[gram], count) for gram, count in best.items())


def bleu(hypothesis: NGrams, references: Sequence[NGrams], weightings: Sequence[Sequence[float]]) -> list[float]:
    """Return sentence BLEU without smoothing for several weightings of the n-gram orders at once.

    Papineni et al. 2002, https://aclanthology.org/P02-1040, as ``nltk.translate.bleu_score.sentence_bleu`` computes
    it, edge cases included: the reference length is the one closest to the hypothesis (the shorter of two equally
    close), no common unigram gives 0, and an order n > 1 without a match has NLTK's precision of 2.2e-308. What comes
    of that, far below any BLEU of matches, is 0.

    Args:
        hypothesis: The text to score.
        references: At least one reference.
        weightings: The weight of unigrams, bigrams, ... in the geometric mean, each of any length.
    """
    highest = max(len(weights) for weights in weightings)
    matched = matches(hypothesis, references, 1)
    if matched == 0:
        return [0.0] * len(weightings)
    logs = []
    for n in range(1, highest + 1):
        if n > 1 and matched:  # where no (n-1)-gram matches, no n-gram does
            matched = matches(hypothesis, references, n)
        logs.append(math.log(matched / hypothesis.total(n)) if matched else _NO_MATCH)
    length = len(hypothesis)
    closest = min((len(reference) for reference in references), key=lambda other: (abs(other - length), other))
    brevity = 1.0 if length > closest else math.exp(1 - closest / length)
    values = (
        brevity * math.exp(math.fsum(weight * log for weight, log in zip(weights, logs, strict=False)))
        for weights in weightings
    )
    return [value if value > _NOTHING else 0.0 for value in values]
