"""Comparisons of two models' answers to a case, as the rows of both models tell of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from leadline.evaluators.data.pair_outcomes import LOSS, WIN, Order, PairOutcome, from_payload
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
    """Return the comparisons of a run's evaluator, each once although the rows of both models tell of it.

    Args:
        connection: The run, with the dataset's views.
        evaluator_id: The evaluator, whose payloads are outcomes of pairs.
    """
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
