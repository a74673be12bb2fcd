"""The language of a text, by py3langid: a classifier of byte n-grams that comes with its model."""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any, Final, NamedTuple

ENGLISH: Final = "en"

LEAST_BYTES: Final = 20
"""Bytes of letters, in UTF-8, below which a text is too short to tell: five words or so, ten Cyrillic letters, seven
Chinese characters."""

MOST_CHARACTERS: Final = 5_000
"""Characters of a text that are looked at: more make no surer."""

CERTAIN: Final = 0.9
"""Probability from which a language counts as found."""

_NO_PROSE: Final = re.compile(
    r"```(?s:.)*?(?:```|\Z)|`[^`\n]*`|^[ \t]*\|.*\|[ \t]*$|<[^<>]{1,200}>|\b(?:https?://|www\.)\S+|\b[\w.+-]{1,64}@\S+",
    re.M,
)

_lock: Final = threading.Lock()


class Language(NamedTuple):
    """A language that was found.

    Attributes:
        code: ISO 639-1 code.
        probability: From 0 to 1.
    """

    code: str
    probability: float


def prose(text: str) -> str:
    """Return a text without code, tables, tags and addresses, which are in no language."""
    return _NO_PROSE.sub(" ", text)


def probabilities(text: str) -> dict[str, float]:
    """Return how probable each language is for a text, the most probable first; nothing for one that is too short.

    Args:
        text: The text; see :func:`prose`.
    """
    letters = "".join(letter for letter in text[:MOST_CHARACTERS] if letter.isalpha() or letter.isspace())
    if sum(len(letter.encode("utf-8", "surrogatepass")) for letter in letters if not letter.isspace()) < LEAST_BYTES:
        return {}
    with _lock:
        return dict(_identifier().rank(" ".join(letters.split())))


def detect(text: str, certain: float = CERTAIN) -> Language | None:
    """Return the language of a text, ``None`` where that is not sure.

    Args:
        text: The text.
        certain: Probability that it must have.
    """
    found = probabilities(text)
    code = next(iter(found), None)
    return Language(code, found[code]) if code is not None and found[code] >= certain else None


def languages() -> tuple[str, ...]:
    """Return the codes of the languages that are known."""
    return tuple(sorted(_identifier().labels))


@cache
def _identifier() -> Any:
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
