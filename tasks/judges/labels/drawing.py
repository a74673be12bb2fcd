"""Drawing rows for people to label, so that the labels tell about all rows.

For each model, whole clusters are drawn: an original with its perturbed copies. Their order is that of a digest of the
seed and the original's key, so that the same command draws the same rows, and a larger sample holds the smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.tasks.judges.labels.label_sets import Drawing, Drawn

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.judged_rows import JudgedRows
    from leadline.tasks.statistics.bounded_mean import Ints

LEAST_OF_VERDICT: Final = 20
"""Rows that the judge passes, and that it fails, which a uniform sample has at least, where there are so many."""
QUINTILES: Final = 5


def draw(judged: JudgedRows, number: int, *, how: Drawing = "uniform", seed: int = 1) -> list[Drawn]:
    """Return rows drawn at random, as many for each model, and no more than asked for.

    Args:
        number: The most rows in all; of whole clusters, a few less.
        how: ``uniform`` gives every row the same chance, but tops up to 20 rows of either verdict, where rows pass or
            fail; ``balanced`` takes half of the rows from those that the judge fails; ``by-score`` as many from each
            fifth of the scores.
        seed: Another seed draws other rows.

    Raises:
        UsageError: There is no row, or the number is too small for a single cluster.
    """
    if not len(judged.rows):
        raise UsageError(
            f"{judged.metric.id} scored no row of this run.",
            hint="Look at the reasons: leadline show RUN",
            code=ErrorCode.LABEL_SAMPLE,
        )
    models = np.array(judged.models)
    names = sorted(set(judged.models))
    drawn: list[Drawn] = []
    for place, model in enumerate(names):
        rows = np.flatnonzero(models == model)
        wanted = number // len(names) + (place < number % len(names))
        drawn += _draw_of_model(judged, rows, wanted, how, f"{seed}/{model}") if wanted else []
    if not drawn:
        raise UsageError(
            f"No case of {count(len(names), 'model')} fits into {count(number, 'row')} with all its copies.",
            hint=f"Take {'one model alone (--model NAME), or ' if len(names) > 1 else ''}a larger --n.",
            code=ErrorCode.LABEL_SAMPLE,
        )
    return sorted(drawn, key=lambda row: _rank(f"{seed}/order", judged.keys[row.index]))


def strata_of(judged: JudgedRows, rows: Ints, how: Drawing) -> list[str]:
    """Return the stratum of each of one model's rows: copies of a case are in that of their mean.

    Args:
        rows: The model's places in them.
    """
    _, of_row = np.unique(judged.clusters[rows], return_inverse=True)
    means = np.bincount(of_row, judged.values[rows]) / np.bincount(of_row)
    if how == "by-score":
        fifths = np.quantile(means, np.arange(1, QUINTILES) / QUINTILES)
        parts = [f"fifth {1 + int(part)}" for part in np.searchsorted(fifths, means, side="right")]
    else:
        parts = ["passed" if passes else "failed" for passes in judged.metric.passes(means)]
    model = judged.models[rows[0]]
    return [f"{model}: {parts[cluster]}" for cluster in of_row]


def _draw_of_model(judged: JudgedRows, rows: Ints, wanted: int, how: Drawing, seed: str) -> list[Drawn]:
    """Return rows of one model."""
    _, of_row = np.unique(judged.clusters[rows], return_inverse=True)
    members = np.split(rows[np.argsort(of_row, kind="stable")], np.cumsum(np.bincount(of_row))[:-1])
    strata = dict(zip(of_row.tolist(), strata_of(judged, rows, how), strict=True))
    parts = [strata[number] for number in range(len(members))]
    order = sorted(range(len(members)), key=lambda number: _rank(seed, judged.cases[members[number][0]]))
    if how == "uniform" and not judged.metric.is_binary:
        parts, wishes = [""] * len(members), {"": wanted}  # numbers pass and fail nothing
    elif how == "uniform":
        wishes = _wishes_of_uniform(members, order, parts, wanted)
    else:
        names = sorted(set(parts))
        wishes = {part: (wanted + len(names) - 1 - place) // len(names) for place, part in enumerate(names)}
    drawn = []
    for part, wish in wishes.items():
        those = [number for number in order if parts[number] == part]
        taken = _first(members, those, wish)
        if not taken and how == "by-score":  # the mean of the others would be another one
            return []
        chance = len(taken) / len(those)
        drawn += [Drawn(int(row), part, chance) for number in taken for row in members[number]]
    return drawn


def _wishes_of_uniform(
    members: Sequence[Ints], order: Sequence[int], parts: Sequence[str], wanted: int
) -> dict[str, int]:
    """Return how many rows of each verdict are wanted: what comes by chance, and some of either, no more in all."""
    chosen = set(_first(members, order, wanted))
    rows = {
        part: [len(own) for own, its in zip(members, parts, strict=True) if its == part] for part in sorted(set(parts))
    }
    by_chance = {part: sum(len(members[number]) for number in chosen if parts[number] == part) for part in rows}
    least = {part: min(LEAST_OF_VERDICT, wanted // 2, sum(rows[part])) for part in rows}
    wishes = {part: max(by_chance[part], least[part]) for part in rows}
    for part in rows:
        beyond = sum(wishes.values()) - wanted
        wishes[part] -= min(max(0, beyond), wishes[part] - least[part])
    fits = all(_first(members, [number for number in order if parts[number] == part], wishes[part]) for part in rows)
    return wishes if fits else by_chance  # a case with its copies is more than some of either


def _first(members: Sequence[Ints], order: Sequence[int], wanted: int) -> list[int]:
    """Return the first clusters in an order that have at most so many rows together."""
    taken, rows = [], 0
    for number in order:
        rows += len(members[number])
        if rows > wanted:
            break
        taken.append(number)
    return taken


def _rank(seed: str, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()
