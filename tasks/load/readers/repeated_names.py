"""Names that stand twice in one JSON object: decoders keep the last value and say nothing."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_COLON: Final = re.compile(rb'"[ \t\r\n]*:')
_WIDE: Final = re.compile(rb'"[ \t\r\n]+:')


def repeated_names(data: bytes, value: Any) -> list[str]:
    """Return the names that some object repeats, each once, sorted; almost always none.

    Every member has a quote before a colon, so a value with as many of them as it has members repeats no name. Where
    there are more of them (a text may hold them too), the slower decoder of Python looks at every member.

    Args:
        data: A JSON value.
        value: What it was decoded to.
    """
    if type(value) is not dict and type(value) is not list:
        return []
    members = _count(value)
    if data.count(b'":') == members and not _WIDE.search(data):
        return []
    if len(_COLON.findall(data)) == members:
        return []
    repeated: set[str] = set()

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            (repeated if name in seen else seen).add(name)

    try:
        json.loads(data, object_pairs_hook=note, parse_int=float)
    except RecursionError:
        return []  # nested about a thousand times: deeper than Python's decoder goes
    return sorted(repeated)


def _count(value: Any) -> int:
    """Return how many members the objects of a value have together."""
    number = 0
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if type(inner) is dict:
            number += len(inner)
            inner = inner.values()
        for element in inner:
            if type(element) is dict or type(element) is list:
                waiting.append(element)
    return number
