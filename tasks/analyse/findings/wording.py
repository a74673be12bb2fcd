"""How numbers, names and texts read in a finding's sentence."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.evaluators.core.text import count as count


def number(value: float | None) -> str:
    """Return a value for a sentence: four digits after the point at most."""
    if value is None:
        return "no value"
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share for a sentence; never 0 or 100 % unless it is."""
    shown = f"{100 * share:.1f}".removesuffix(".0")
    if shown == "100" and share < 1:
        return "99.9 %"
    return "under 0.1 %" if shown == "0" and share > 0 else f"{shown} %"


def listing(names: Iterable[str], *, most: int = 8) -> str:
    """Return names as they read in a sentence: "a, b and c"."""
    found = list(names)
    if len(found) > most:
        found = [*found[: most - 1], f"{len(found) - most + 1} more"]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def quoted(text: str | None, *, most: int = 160) -> str:
    """Return a text of the dataset for a sentence: on one line, shortened."""
    line = " ".join((text or "").split())
    return f'"{line}"' if len(line) <= most else f'"{line[: most - 1]}…"'
