"""Comparisons of two models' answers to a case: who won, how strong models are, and how much the order decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson

from leadline.evaluators.data import LOSS, MOST_LABELS, WIN, Details, LabelValues, Order, PairOutcome, from_payload
from leadline.evaluators.ground import count
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import sql
from leadline.tasks.statistics.bounded_mean import mean_of_clusters
from leadline.tasks.statistics.bradley_terry import PairComparison, Strength, strengths

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LEAST_BIAS: Final = 0.05
"""A judge is biased where the interval of its bias lies beyond this share of the pairs."""

_LEAST_INCONSISTENT: Final = 0.25
"""A judge contradicts itself where the interval of the share of pairs on which it does lies above this."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """The comparison of two models' answers to one case; where it was judged in several trials, their shares.

    Attributes:
        one: Key of a model, the lesser of the two.
        other: Key of the other model.
        cluster: The case; its perturbed copies have the same number.
        won: Share of the trials that ``one`` won.
        lost: Share that it lost.
        orders: Shares by how the verdicts in the two orders go together.
    """

    one: str
    other: str
    cluster: int
    won: float
    lost: float
    orders: dict[Order, float]

    @property
    def score(self) -> float:
        """The share that ``one`` won, of which ties and contradictions count half."""
        return self.won + (1 - self.won - self.lost) / 2

    @property
    def inconsistent(self) -> float:
        """Share of the trials whose two orders contradict each other."""
        return sum(self.orders.get(order, 0.0) for order in (Order.FIRST, Order.SECOND, Order.MIXED))

    @property
    def asked(self) -> float:
        """Share of the trials in which a judge was asked: 0 where the answers are the same text."""
        return 1 - self.orders.get(Order.UNASKED, 0.0)


@dataclass
class _Sums:
    weight: float = 0.0
    won: float = 0.0
    lost: float = 0.0
    orders: defaultdict[Order, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, outcome: PairOutcome, weight: float, *, turned: bool) -> None:
        won, lost = outcome.score == WIN, outcome.score == LOSS
        self.weight += weight
        self.won += weight * (lost if turned else won)
        self.lost += weight * (won if turned else lost)
        self.orders[outcome.order] += weight


def read_pairs(connection: DuckDBPyConnection, evaluator_id: int) -> list[JudgedPair]:
    """Return the comparisons of a run's evaluator, each once although the rows of both models tell of it."""
    found = perturbation_clusters(connection)
    family = dict(zip(found["case_id"].tolist(), found["family"].tolist(), strict=True))
    lines = connection.execute(sql("aggregate/pair_payloads"), [evaluator_id]).fetchall()
    rows = ((model, case, orjson.loads(payload), weight) for model, case, payload, weight in lines)
    return merged(
        (model, case, family.get(case, -1 - case), from_payload(payload), weight)
        for model, case, payload, weight in rows
    )


def merged(rows: Iterable[tuple[str, int, int, Sequence[PairOutcome], float]]) -> list[JudgedPair]:
    """Return each comparison of a case once.

    Args:
        rows: Of each row and trial its model, its case, the case's cluster, its outcomes, and its weight.
    """
    sums: defaultdict[tuple[int, int, str, str], _Sums] = defaultdict(_Sums)
    for model, case, cluster, outcomes, weight in rows:
        for each in outcomes:
            turned = model > each.rival
            one, other = (each.rival, model) if turned else (model, each.rival)
            sums[case, cluster, one, other].add(each, weight, turned=turned)
    return [
        JudgedPair(
            one,
            other,
            cluster,
            won=of.won / of.weight,
            lost=of.lost / of.weight,
            orders={order: share / of.weight for order, share in of.orders.items()},
        )
        for (_, cluster, one, other), of in sums.items()
    ]


@dataclass(frozen=True, slots=True)
class ShareOfPairs:
    """A share of the pairs that were asked, with its 95 % interval over cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PositionBias:
    """Counts of how a judge's two verdicts on each pair go together; trials count in shares.

    Attributes:
        asked: Pairs that were asked in both orders.
        first: Pairs of which the answer that stood first was preferred in both.
        second: Pairs of which the one that stood second was.
        mixed: Pairs with a tie in one order only.
        bias: Share of the pairs decided by the first place, less the share decided by the second.
        inconsistent: Share of the pairs whose two verdicts contradict each other.
    """

    asked: float
    first: float
    second: float
    mixed: float
    bias: ShareOfPairs
    inconsistent: ShareOfPairs

    @property
    def preferred(self) -> str:
        """``"first"`` or ``"second"`` where the place decides significantly often, else ``""``."""
        if self.bias.low > _LEAST_BIAS:
            return "first"
        return "second" if self.bias.high < -_LEAST_BIAS else ""

    @property
    def contradicts(self) -> bool:
        """True where the judge contradicts itself in significantly many pairs."""
        return self.inconsistent.low > _LEAST_INCONSISTENT


def position_bias(pairs: Sequence[JudgedPair]) -> PositionBias | None:
    """Measure how a judge's verdicts depend on the order; ``None`` where too few pairs were asked to tell."""
    asked = [pair for pair in pairs if pair.asked > 0]
    bias = _share(asked, lambda pair: pair.orders.get(Order.FIRST, 0.0) - pair.orders.get(Order.SECOND, 0.0), -1.0)
    inconsistent = _share(asked, lambda pair: pair.inconsistent, 0.0)
    if bias is None or inconsistent is None:
        return None
    return PositionBias(
        asked=sum(pair.asked for pair in asked),
        first=sum(pair.orders.get(Order.FIRST, 0.0) for pair in asked),
        second=sum(pair.orders.get(Order.SECOND, 0.0) for pair in asked),
        mixed=sum(pair.orders.get(Order.MIXED, 0.0) for pair in asked),
        bias=bias,
        inconsistent=inconsistent,
    )


def _share(pairs: Sequence[JudgedPair], counted: Callable[[JudgedPair], float], low: float) -> ShareOfPairs | None:
    """Return a mean over pairs with its interval over cases, ``None`` where there are fewer than two of these."""
    sums: defaultdict[int, float] = defaultdict(float)
    sizes: defaultdict[int, float] = defaultdict(float)
    for pair in pairs:
        sums[pair.cluster] += counted(pair)
        sizes[pair.cluster] += pair.asked
    if len(sizes) < 2:
        return None
    mean = mean_of_clusters(np.array([sums[case] for case in sizes]), np.array(list(sizes.values())), low=low, high=1.0)
    return None if mean is None else ShareOfPairs(mean.value, *mean.interval())


def model_strengths(pairs: Sequence[JudgedPair]) -> dict[str, Strength]:
    """Return each model's strength by its key; none where comparisons do not connect all models."""
    models = sorted({model for pair in pairs for model in (pair.one, pair.other)})
    place = {model: at for at, model in enumerate(models)}
    games = [PairComparison(place[pair.one], place[pair.other], pair.score, pair.cluster) for pair in pairs]
    found = strengths(games, len(models)) if games else None
    return dict(zip(models, found, strict=True)) if found else {}


@dataclass
class _Record:
    """Comparisons of a model and how they ended; trials count in shares."""

    compared: int = 0
    won: float = 0.0
    lost: float = 0.0
    inconsistent: float = 0.0
    asked: float = 0.0

    def add(self, pair: JudgedPair, *, turned: bool) -> None:
        self.compared += 1
        self.won += pair.lost if turned else pair.won
        self.lost += pair.won if turned else pair.lost
        self.inconsistent += pair.inconsistent
        self.asked += pair.asked

    def values(self) -> dict[str, float | int | None]:
        halves = self.compared - self.won - self.lost
        return {
            "compared": self.compared,
            "won": _plain(self.won),
            "lost": _plain(self.lost),
            "tied": _plain(halves - self.inconsistent),
            "inconsistent": _plain(self.inconsistent),
            "win rate": (self.won + halves / 2) / self.compared if self.compared else None,
        }


def _plain(number: float) -> float | int:
    """Return a whole number as such: without trials all are."""
    return round(number) if abs(number - round(number)) < 1e-9 else round(number, 3)


def pair_tables(pairs: Sequence[JudgedPair]) -> dict[str, Details]:
    """Return for each model, by its key, a table of how it fared against each other one, and against all."""
    records: defaultdict[str, defaultdict[str, _Record]] = defaultdict(lambda: defaultdict(_Record))
    for pair in pairs:
        for model, rival, turned in ((pair.one, pair.other, False), (pair.other, pair.one, True)):
            records[model][rival].add(pair, turned=turned)
            records[model][""].add(pair, turned=turned)
    note = order_note(pairs)
    return {
        model: Details(
            labels=[
                LabelValues(key="rival", value=rival, values=record.values())
                for rival, record in sorted(mine.items())[: MOST_LABELS + 1]
            ],
            notes=[note, "Ties and inconsistent pairs count half in the win rate."],
        )
        for model, mine in sorted(records.items())
    }


def order_note(pairs: Sequence[JudgedPair]) -> str:
    """Return in a sentence how often the order of the answers decided, in the comparisons of all models."""
    asked = sum(pair.asked for pair in pairs)
    shares = {order: sum(pair.orders.get(order, 0.0) for pair in pairs) for order in Order}
    first, second = shares[Order.FIRST], shares[Order.SECOND]
    return (
        f"The judge compared {count(round(asked), 'pair')} of answers in both orders, those of all models together: in "
        f"{first:.4g} it preferred whichever came first, in {second:.4g} whichever came second, and in "
        f"{shares[Order.MIXED]:.4g} one order was a tie."
    )
