"""Results held against those that were recorded, but for the rounding of another processor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def parts(value: str) -> list[str | float]:
    """Return a text taken apart into words and the numbers with a point between them."""
    found = re.split(r"(\d+\.\d+)", value)
    return [float(part) if number % 2 else part for number, part in enumerate(found)]


def same(value: Any, golden: Any) -> bool:
    """Return whether two values differ by the rounding of another processor at most."""
    return next(differences(value, golden), None) is None


def differences(value: Any, golden: Any, place: str = "") -> Iterator[str]:
    """Yield the places where two values differ by more, with what is there and what was recorded."""
    if isinstance(value, dict) and isinstance(golden, dict):
        for name in [*golden, *(value.keys() - golden.keys())]:
            yield from differences(value.get(name, "nothing"), golden.get(name, "nothing"), f"{place}.{name}")
    elif isinstance(value, list) and isinstance(golden, list) and len(value) == len(golden):
        for number, (one, other) in enumerate(zip(value, golden, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif not _alike(value, golden):
        yield f"{place}: {value!r:.500} was {golden!r:.500}"


def _alike(value: Any, golden: Any) -> bool:
    if isinstance(value, str) and isinstance(golden, str):
        return value == golden or (len(parts(value)) > 1 and same(parts(value), parts(golden)))
    if isinstance(value, float) and isinstance(golden, float):
        return value == golden or abs(value - golden) <= 1e-4 * max(1.0, abs(golden))
    return bool(value == golden)
