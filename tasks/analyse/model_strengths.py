"""Strengths of models by comparisons of their answers, and tables of how each fared against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.evaluators.data.details import MOST_LABELS, Details, LabelValues
from leadline.evaluators.data.pair_outcomes import Order
from leadline.evaluators.ground.text import count
from leadline.tasks.analyse.pair_records import JudgedPair
from leadline.tasks.statistics.bradley_terry import PairComparison, Strength, strengths


def model_strengths(pairs: Sequence[JudgedPair]) -> dict[str, Strength]:
    """Return each model's strength by its key; none where comparisons do not connect all models.

    Args:
        pairs: The comparisons.
    """
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
    """Return for each model, by its key, a table of how it fared against each other one, and against all.

    Args:
        pairs: The comparisons.
    """
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
    """Return in a sentence how often the order of the answers decided, in the comparisons of all models.

    Args:
        pairs: The comparisons.
    """
    asked = sum(pair.asked for pair in pairs)
    shares = {order: sum(pair.orders.get(order, 0.0) for pair in pairs) for order in Order}
    first, second = shares[Order.FIRST], shares[Order.SECOND]
    return (
        f"The judge compared {count(round(asked), 'pair')} of answers in both orders, those of all models together: in "
        f"{first:.4g} it preferred whichever came first, in {second:.4g} whichever came second, and in "
        f"{shares[Order.MIXED]:.4g} one order was a tie."
    )
