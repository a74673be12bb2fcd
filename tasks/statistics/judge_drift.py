"""Tests of whether a judge is still the one that was enrolled, by its replies to the same probes.

If nothing changed, the fresh reply to a probe is as likely as any other of its replies to be the odd one out, however
noisy the judge is. That makes the test exact, without any assumption on the judge.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]

PERMUTATIONS: Final = 9_999
SEED: Final = 12_011

SUSPICIOUS: Final = 0.01
"""The p-value of a check up to which every probe is asked again, as often as at enrolment."""

CERTAIN: Final = 0.001
"""The p-value of those further replies, on their own, up to which the judge counts as changed."""

POOLED_CHECKS: Final = 4
"""Checks that are also tested together, since a slow drift shows in no single one."""


class Drift(NamedTuple):
    """The outcome of a test.

    Attributes:
        p: Chance of so much difference if nothing changed.
        statistic: The difference between fresh and enrolled replies: pairs that differ, or a sum of distances.
        expected: What it would be on average if nothing changed.
    """

    p: float
    statistic: float
    expected: float


def verdict_drift(enrolled: Ints, fresh: Ints) -> Drift:
    """Test whether verdicts changed.

    The statistic counts pairs of a fresh and an enrolled reply of one probe that differ. For a probe with b ones among
    its K + 1 replies, the fresh one is a one with the chance b / (K + 1) and then differs from K + 1 - b others; the
    probes' distributions are convolved.

    Args:
        enrolled: Verdicts of 0 and 1, probes by K replies.
        fresh: One new verdict for each probe.
    """
    replies = enrolled.shape[1]
    differing = int((enrolled != fresh[:, None]).sum())
    chances, expected = np.ones(1), 0.0
    for ones in (enrolled.sum(axis=1) + fresh).tolist():
        if ones in (0, replies + 1):
            continue
        share = ones / (replies + 1)
        probe = np.zeros(replies + 1)
        probe[replies + 1 - ones] += share
        probe[ones] += 1 - share
        chances = np.convolve(chances, probe)
        expected += share * (replies + 1 - ones) + (1 - share) * ones
    p = float(min(1.0, chances[differing:].sum())) if differing else 1.0
    return Drift(p, float(differing), expected)


def repeated_verdict_drift(enrolled: Ints, fresh: Ints) -> Drift:
    """Test whether verdicts changed, with several fresh replies to each probe.

    Of the b ones among a probe's K + f replies, the number among the fresh ones is hypergeometric.

    Args:
        enrolled: Verdicts of 0 and 1, probes by K replies.
        fresh: New verdicts, probes by f replies.
    """
    old, new = enrolled.shape[1], fresh.shape[1]
    old_ones, new_ones = enrolled.sum(axis=1), fresh.sum(axis=1)
    differing = int((new_ones * (old - old_ones) + (new - new_ones) * old_ones).sum())
    chances, expected = np.ones(1), 0.0
    for ones in (old_ones + new_ones).tolist():
        if ones in (0, old + new):
            continue
        probe, mean = _differing_of_probe(ones, old, new)
        chances = np.convolve(chances, probe)
        expected += mean
    p = float(min(1.0, chances[differing:].sum())) if differing else 1.0
    return Drift(p, float(differing), expected)


@cache
def _differing_of_probe(ones: int, old: int, new: int) -> tuple[Floats, float]:
    """Return the chances of 0, 1, 2, … differing pairs of a probe if nothing changed, and their mean.

    Args:
        ones: Ones among all its replies.
        old: Its enrolled replies.
        new: Its fresh replies.
    """
    from scipy.stats import hypergeom

    hits = np.arange(max(0, ones - old), min(ones, new) + 1)
    counts = hits * (old - ones + hits) + (new - hits) * (ones - hits)
    probability = hypergeom.pmf(hits, old + new, ones, new)
    return np.bincount(counts, probability, minlength=1).astype(float), float((counts * probability).sum())


def value_drift(enrolled: Floats, fresh: Floats, *, permutations: int = PERMUTATIONS) -> Drift:
    """Test whether numbers changed, by permuting the replies of each probe.

    The statistic is the sum over the probes of the distance between the mean of the fresh values and that of the
    enrolled ones.

    Args:
        enrolled: Values, probes by K replies.
        fresh: One new value for each probe, or probes by f replies.
        permutations: Number of permutations drawn.
    """
    together = np.column_stack([fresh, enrolled])
    probes, replies = together.shape
    new = replies - enrolled.shape[1]
    sums = together.sum(axis=1)

    def distance(ones: Floats) -> Floats:
        return np.asarray(np.abs(ones / new - (sums - ones) / (replies - new)))

    seen = float(distance(together[:, :new].sum(axis=1)).sum())
    draw = np.random.default_rng(SEED)
    drawn = np.empty(permutations)
    for number in range(permutations):
        if new == 1:
            ones = together[np.arange(probes), draw.integers(0, replies, probes)]
        else:
            ones = draw.permuted(together, axis=1)[:, :new].sum(axis=1)
        drawn[number] = distance(ones).sum()
    as_far = int((drawn >= seen - 1e-12 * max(1.0, seen)).sum())
    return Drift((1 + as_far) / (1 + permutations), seen, float(drawn.mean()))
