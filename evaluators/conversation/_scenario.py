"""Lists of texts in a case's scenario, such as its topics and its policy."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.data import Row


def texts_of(row: Row, key: str) -> list[str]:
    """Return the texts that a row's scenario lists under a key, each once; of one text its lines."""
    given = (row.scenario or {}).get(key)
    listed = given.splitlines() if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    return list(dict.fromkeys(text.strip() for text in listed if isinstance(text, str) and text.strip()))
