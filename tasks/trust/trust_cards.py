"""Trust cards: how far evaluators agree with people on named public data, as measured by ``benchmarks.trust``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

FILE: Final = "trust_cards.json"


@dataclass(frozen=True, slots=True)
class TrustCard:
    """One figure of an evaluator on a public set with people's labels.

    Attributes:
        evaluator: Id of the evaluator.
        version: Its version when it was measured.
        claim: What was compared with what people said.
        measure: Name of the figure: accuracy, recall, precision, Spearman's correlation, …
        value: The figure.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        n: Number of labelled items.
        data: Name of the set.
        licence: Its licence and origin.
        setting: Parameters, embedder or judge, where they are not the defaults.
        note: Known failures, and what to beware of.
    """

    evaluator: str
    version: str
    claim: str
    measure: str
    value: float
    low: float
    high: float
    n: int
    data: str
    licence: str
    setting: str = ""
    note: str = ""


def read_cards(evaluator: str | None = None) -> list[TrustCard]:
    """Return the cards of this version, of one evaluator or of all.

    Args:
        evaluator: Id of the evaluator.
    """
    text = (files("leadline.tasks.trust") / FILE).read_text(encoding="utf-8")
    cards = [TrustCard(**record) for record in json.loads(text)]
    return [card for card in cards if evaluator in (None, card.evaluator)]


def write_cards(cards: Iterable[TrustCard], path: Path) -> None:
    """Write cards as JSON.

    Args:
        cards: The cards.
        path: The file.
    """
    lines = [json.dumps(asdict(card), ensure_ascii=False) for card in cards]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
