"""What is the same at any time, in any folder and on any machine of results, and how it is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 118
LEFT_OUT: Final = "…"
"""Stands for what differs from recording to recording."""

_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\bcheck/\d{4}-\d\d-\d\d(/\d{6})?"), "check/MOMENT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ](at )?\d\d:\d\d(:\d\d)?([.,]\d+)?( ?UTC|Z|[+-]\d\d:?\d\d)?"), "MOMENT"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), "HOST"),
    (re.compile(r"\b[0-9a-f]{10,64}\b"), "DIGEST"),
    (re.compile(r"@\d+(\.\d+)+\b"), "@VERSION"),
    (re.compile(r"\bprompt\+model [0-9a-f]{6}\b"), "prompt+model DIGEST"),
    (re.compile(r"\b\d+(\.\d+)? m?s\b"), "SECONDS"),
)
_MODULE: Final = re.compile(r"\bleadline(?:\.[a-z_]\w*)*\.(?=[A-Za-z_])")
_VOLATILE: Final = re.compile(r"(^|_)(at|time|versions|seconds|started|ended|bytes|process)(_|$)")
"""Names of what tells time, sizes of files or the machine."""


def plain(value: Any, folder: Path) -> Any:
    """Return JSON without what differs from recording to recording."""
    if isinstance(value, dict):
        return {
            without_moments(name, folder): LEFT_OUT if _VOLATILE.search(name) and part else plain(part, folder)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(part, folder) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return without_moments(value, folder) if isinstance(value, str) else value


def without_moments(text: str, folder: Path) -> str:
    """Return a text without times, runs, digests, ports and the folder."""
    for place in {str(folder), str(folder.resolve())}:
        text = text.replace(place, "FOLDER")
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text


def without_modules(text: str) -> str:
    """Return a text in which classes and functions have no modules before their names."""
    return _MODULE.sub("", text)


def laid_out(value: Any, indent: int = 0) -> str:
    """Return JSON in lines that differ one by one: what fits into a line takes one."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(text) + indent <= WIDTH:
        return text
    inner = " " * (indent + 1)
    parts = (
        [f"{json.dumps(name, ensure_ascii=False)}: {laid_out(part, indent + 1)}" for name, part in value.items()]
        if isinstance(value, dict)
        else [laid_out(part, indent + 1) for part in value]
    )
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{' ' * indent}{closing}"
