"""Outcomes of comparisons of two models' answers to a case, each put to a judge in both orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias, cast

from leadline.evaluators.data.messages import Json

Preferred: TypeAlias = Literal["first", "second", "tie"]
"""The one of two answers that a judge prefers, by where it stood."""

WIN: Final = 1.0
TIE: Final = 0.5
LOSS: Final = 0.0


class Order(StrEnum):
    """The way in which the verdicts in the two orders of a pair go together."""

    UNASKED = "unasked"  # the answers are the same text
    AGREED = "agreed"  # both orders have the same answer preferred, or neither
    FIRST = "first"  # in both orders the answer that stood first
    SECOND = "second"  # in both orders the answer that stood second
    MIXED = "mixed"  # a tie in one order only


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """The outcome of a comparison with another model's answer.

    Attributes:
        rival: Key of the other model.
        score: 1 for a win, 0 for a loss, 0.5 for a tie or verdicts that contradict each other.
        order: How the verdicts in the two orders go together.
    """

    rival: str
    score: float
    order: Order

    @property
    def asked(self) -> bool:
        """True where a judge was asked."""
        return self.order is not Order.UNASKED

    @property
    def consistent(self) -> bool:
        """True where the order of the answers made no difference."""
        return self.order in (Order.UNASKED, Order.AGREED)


def outcome(rival: str, as_first: Preferred, as_second: Preferred) -> PairOutcome:
    """Return the outcome of a pair that was judged in both orders.

    Args:
        rival: Key of the other model.
        as_first: The verdict where the row's own answer stood first and the rival's second.
        as_second: The verdict where the rival's answer stood first and the row's own second.
    """
    if as_first == as_second:
        if as_first == "tie":
            return PairOutcome(rival, TIE, Order.AGREED)
        return PairOutcome(rival, TIE, Order(as_first))
    if "tie" in (as_first, as_second):
        return PairOutcome(rival, TIE, Order.MIXED)
    return PairOutcome(rival, WIN if as_first == "first" else LOSS, Order.AGREED)


def of_majority(outcomes: Sequence[PairOutcome]) -> PairOutcome:
    """Return the outcome of a pair that several judges compared: what more than half of them say, else a tie.

    Seen from the rival's side it is the same comparison.

    Args:
        outcomes: The outcome by each judge, at least one, all with the same rival.
    """
    won, lost = (sum(each.score == score for each in outcomes) for score in (WIN, LOSS))
    score = WIN if 2 * won > len(outcomes) else LOSS if 2 * lost > len(outcomes) else TIE
    alike = [each for each in outcomes if each.score == score]
    orders = [each.order for each in (alike if 2 * len(alike) > len(outcomes) else outcomes)]
    return PairOutcome(outcomes[0].rival, score, max(Order, key=orders.count))


def to_payload(outcomes: Iterable[PairOutcome]) -> Json:
    """Return outcomes as the payload of a row: ``[rival, score, order]`` each."""
    return [[each.rival, each.score, each.order.value] for each in outcomes]


def from_payload(payload: Json) -> tuple[PairOutcome, ...]:
    """Return the outcomes of a row from its payload, as :func:`to_payload` made it."""
    lines = cast("list[tuple[str, float, str]]", payload)
    return tuple(PairOutcome(rival, float(score), Order(order)) for rival, score, order in lines)
