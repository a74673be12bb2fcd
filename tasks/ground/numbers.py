"""Formats of numbers for people: short, and never more exact than they are."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from leadline.evaluators.ground import text

ABSENT: Final = "\N{EN DASH}"
RANGE: Final = " \N{EN DASH} "


def signed(value: float) -> str:
    """Return a difference with three digits and a proper sign, 0 without one."""
    return f"{value:+.3g}".replace("-", "\N{MINUS SIGN}") if value else "0"


def figure(value: float | None, share: bool = False) -> str:
    """Return a score: three decimals, 0.000 below a millionth, a share as a percentage, an absent one as a dash."""
    if value is None:
        return ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if share:
        return percent(value)
    if abs(value) < 0.0005:
        return "0.000" if abs(value) < 1e-6 else f"{value:.1e}"
    if abs(value) >= 100_000:
        return f"{value:.3g}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.3f}"


def movement(before: float, after: float, share: bool = False) -> str:
    """Return two scores as a change: "82.5 → 95.0 %", "0.746 → 0.525"."""
    if share:
        return f"{before * 100:.1f} → {after * 100:.1f} %"
    return f"{figure(before)} → {figure(after)}"


def bound(value: float | None, share: bool = False) -> str:
    """Return a threshold as it was given, without the zeros that a measured value carries."""
    if value is None or math.isinf(value):
        return figure(value)
    return f"{value * 100:.6g} %" if share else f"{value:.6g}"


def percent(value: float | None) -> str:
    """Return a share as a percentage, an absent one as a dash."""
    return ABSENT if value is None else text.percent(value)


def money(value: float | None) -> str:
    """Return an amount in US dollars."""
    if value is None:
        return ABSENT
    if value < 0:
        return f"-{money(-value)}"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}" if value >= 0.0001 else f"${value:.0e}"


def duration(value: float | None) -> str:
    """Return seconds in the unit that fits."""
    if value is None:
        return ABSENT
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def when(value: object) -> str:
    """Return an ISO time as a person writes it, or the text itself when it is none."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return str(value)
    zone = moment.strftime("%Z")
    return f"{moment:%-d %B %Y, %H:%M} {zone}".strip()
