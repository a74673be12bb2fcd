"""Trust cards: how far evaluators agree with people on named public data, as measured by ``benchmarks.trust``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

FILE: Final = "trust_cards.json"


@dataclass(frozen=True, slots=True)
class TrustCard:
    """One figure of an evaluator on a public set with people's labels.

    Attributes:
        measure: Name of the figure: accuracy, recall, precision, rank correlation, …
        value: The figure; ``None`` where it could not be measured.
        low: Lower end of its 95 % interval, ``None`` without a figure.
        high: Upper end of its 95 % interval, ``None`` without a figure.
        groups: Number of independent groups among them: prompts, templates, conversations.
        chance: The figure of one that guesses, ``None`` where there is no such figure.
        people: The same figure between one person and another, ``None`` where the set does not tell.
        headline: Whether it stands for all figures of the evaluator on the set.
        setting: Parameters, embedder or judge, where they are not the defaults.
        measured: Day of the measurement, ISO 8601.
        lacks: The weights for want of which it was not measured, as ``leadline evaluators models pull`` takes them.
    """

    evaluator: str
    version: str
    claim: str
    measure: str
    data: str
    licence: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    groups: int = 0
    chance: float | None = None
    people: float | None = None
    headline: bool = False
    setting: str = ""
    note: str = ""
    failures: tuple[str, ...] = ()
    measured: str = ""
    lacks: str = ""

    @property
    def no_better_than_chance(self) -> bool:
        """True where the interval does not lie above the figure of one that guesses."""
        return self.chance is not None and self.low is not None and self.low <= self.chance


def read_cards(evaluator: str | None = None) -> list[TrustCard]:
    """Return the cards of this version, of one evaluator or of all."""
    text = (files(__package__ or "") / FILE).read_text(encoding="utf-8")
    cards = [TrustCard(**line | {"failures": tuple(line.get("failures", ()))}) for line in json.loads(text)]
    return [card for card in cards if evaluator in (None, card.evaluator)]


def write_cards(cards: Iterable[TrustCard], path: Path) -> None:
    """Write cards as JSON, a line for each."""
    lines = [json.dumps(_record(card), ensure_ascii=False) for card in cards]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def merged(old: Iterable[TrustCard], new: Iterable[TrustCard]) -> list[TrustCard]:
    """Return old cards, with new ones in the place of what was known of their evaluator and set."""
    new = list(new)
    again = {(card.evaluator, card.data) for card in new}
    kept = [card for card in old if (card.evaluator, card.data) not in again]
    return sorted([*kept, *new], key=lambda card: (card.data, card.evaluator))


def _record(card: TrustCard) -> dict[str, Any]:
    """Return a card without what it does not say, its figures to four places."""
    plain = {field.name: field.default for field in fields(TrustCard)}
    out = {name: value for name, value in asdict(card).items() if value != plain[name]}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in out.items()}
