"""What differs between two configurations of an evaluator: another judge, another prompt, another version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_MOST_LINES: Final = 20
_MOST_TEXT: Final = 120


def differences(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what differs, as ``judge.model: a → b``; nothing where both measure the same way.

    Args:
        baseline: Line of the evaluator: ``config`` (digest of its identity) and ``identity`` (JSON).
        candidate: The same of the other side.
    """
    if baseline["config"] == candidate["config"]:
        return ()
    ours, theirs = (dict(_leaves(json.loads(line["identity"]))) for line in (baseline, candidate))
    lines = [
        f"{path}: {_short(ours.get(path))} → {_short(theirs.get(path))}"
        for path in sorted({*ours, *theirs})
        if ours.get(path) != theirs.get(path)
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
    return tuple(lines) or (f"configuration: {baseline['config']} → {candidate['config']}",)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, value
        return
    for name, part in parts:
        yield from _leaves(part, f"{path}.{name}" if path else str(name))


def _short(value: Any) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
