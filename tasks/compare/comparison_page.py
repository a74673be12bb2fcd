"""``report.html`` of a comparison: one file that needs nothing else and runs no script."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from markupsafe import Markup

from leadline.tasks.compare.results import Comparison, MetricComparison
from leadline.tasks.publish.templating import render

_LEAST_REACH: Final = 0.1
"""Of the range: the axis of the effects shows at least so much, so that little does not look like much."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where one effect stands on the axis, in percent from the left; ``None`` where there is nothing to draw.

    Attributes:
        effect: The effect.
        low: The interval's bad end.
        high: Its good end.
        margin: The largest tolerated worsening; 50, no distance from 0, where nothing was compared.
        cut: Whether the interval reaches beyond the axis.
    """

    effect: float | None
    low: float | None
    high: float | None
    margin: float
    cut: bool


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page."""
    reach = _reach(comparison.metrics)
    page = render(
        "compare/report.html",
        comparison=comparison,
        marks=[_mark(found, reach) for found in comparison.metrics],
        reach=reach,
        style=Markup(_style()),  # noqa: S704 - our own files
        policy=f"default-src 'none'; style-src {_hash(_style())}; img-src data:; base-uri 'none'; form-action 'none'",
    )
    path.write_text(page, encoding="utf-8", newline="\n")


@cache
def _style() -> str:
    templates = files("leadline.tasks.publish") / "templates"
    return "".join((templates / name).read_text(encoding="utf-8") for name in ("report/style.css", "compare/style.css"))


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _scale(found: MetricComparison) -> float:
    """Return what counts as 1 on the axis: the metric's range, or where it has no end the baseline's value."""
    width = found.metric.high - found.metric.low
    if math.isfinite(width):
        return width
    return abs(found.baseline) if found.baseline and math.isfinite(found.baseline) else 1.0


def _reach(metrics: Sequence[MetricComparison]) -> float:
    """Return how far the axis reaches to either side of 0."""
    ends = [
        abs(end) / _scale(found)
        for found in metrics
        for end in (found.effect, found.ci_low, found.ci_high, found.margin)
        if end is not None and math.isfinite(end)
    ]
    return min(1.0, max([_LEAST_REACH, *ends]) * 1.05)


def _mark(found: MetricComparison, reach: float) -> Mark:
    def place(value: float | None) -> float | None:
        if value is None or math.isnan(value):
            return None
        return 50 + 50 * max(-1.0, min(1.0, value / _scale(found) / reach))

    ends = [end for end in (found.ci_low, found.ci_high, found.effect) if end is not None]
    cut = any(abs(end) / _scale(found) > reach for end in ends)
    return Mark(
        place(found.effect), place(found.ci_low), place(found.ci_high), place(-(found.margin or 0.0)) or 0.0, cut
    )
