"""The limits of a search: what one may take in time, and how much a search tool may send."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.settings import MEBIBYTE

TIMEOUT_VARIABLE: Final = "LEADLINE_SEARCH_TIMEOUT_S"
SIZE_VARIABLE: Final = "LEADLINE_SEARCH_MAX_REPLY_MIB"
_MOST: Final = {TIMEOUT_VARIABLE: 3600.0, SIZE_VARIABLE: 1024.0}


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of one search.

    Attributes:
        timeout_s: Longest time for one attempt.
        max_reply: Bytes that a tool may send, when they are decompressed.
    """

    timeout_s: float = 30.0
    max_reply: int = 4 * MEBIBYTE


def search_limits() -> SearchLimits:
    """Return the limits that the environment sets, or the usual ones.

    Raises:
        UsageError: A variable holds no number above 0 that makes sense.
    """
    seconds, size = _number(TIMEOUT_VARIABLE), _number(SIZE_VARIABLE)
    usual = SearchLimits()
    return SearchLimits(seconds or usual.timeout_s, int(size * MEBIBYTE) if size else usual.max_reply)


def _number(variable: str) -> float | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST[variable]:
        raise UsageError(
            f"{variable} is {text[:40]!r}, and must be a number above 0, at most {_MOST[variable]:g}.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return value
