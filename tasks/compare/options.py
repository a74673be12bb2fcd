"""How two sides are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from leadline.tasks.compare.margins import Margins

ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """How two sides are compared.

    Attributes:
        margins: The largest tolerated worsening.
        alpha: The declared chance that any metric fails although nothing became worse, in (0, 0.5].
        metrics: Which metrics: ``evaluator.metric``, or ``evaluator`` for all of it; empty: each evaluator's primary.
        all_metrics: Every metric instead.
        mapping: Keys of the baseline's models, each with the candidate's model that it is compared with.
        allow_different_configurations: Compare also what was measured in different ways, such as by another judge.
        shown: Flips of each metric and direction that the report shows with their texts.
        output: A folder to which the files are copied.
    """

    margins: Margins = field(default_factory=Margins)
    alpha: float = ALPHA
    metrics: tuple[str, ...] = ()
    all_metrics: bool = False
    mapping: Mapping[str, str] = field(default_factory=dict)
    allow_different_configurations: bool = False
    shown: int = 10
    output: Path | None = None
