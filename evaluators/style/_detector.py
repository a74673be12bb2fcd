"""The language of a text, by py3langid: a classifier of byte n-grams that comes with its model."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

ENGLISH: Final = "en"

LEAST_BYTES: Final = 16
"""Bytes of letters, in UTF-8, below which a text is too short to tell: four words or so, eight Cyrillic letters, six
Chinese characters. Below it names fail, which are in no language."""

LEAST_OF_QUESTIONS: Final = 12
"""Bytes of letters of a question, which is no name."""

MOST_CHARACTERS: Final = 5_000
"""Characters of a text that are looked at: more make no surer."""

CERTAIN: Final = 0.9
"""Probability from which a language counts as found."""

FAVOUR: Final = 25.0
"""How much more probable the language that is expected is than any other one before the text is read: about as probable
as all others together."""

_SELDOM: Final = dict.fromkeys(
    "ace an ary arz bcl br crh ext fo fuv fy gcf gcr gom grc gug guw hbo kab kik la lij ltg oc pcm sdh se uzs vec"
    " vo wa wuu zxx".split(),
    0.03,
) | {"af": 0.3, "gl": 0.2, "lb": 0.2}
"""How much less probable languages are that few people write, or no one."""

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


def probabilities(text: str, least: int = LEAST_BYTES) -> dict[str, float]:
    """Return how probable each language is for a text, the most probable first; nothing for one that is too short.

    Bayes' rule on the classifier's, with languages that few people write less probable before.

    Args:
        text: The text; see :func:`prose`.
        least: Bytes of letters below which it is too short.
    """
    letters = "".join(letter for letter in text[:MOST_CHARACTERS] if letter.isalpha() or letter.isspace())
    if sum(len(letter.encode("utf-8", "surrogatepass")) for letter in letters if not letter.isspace()) < least:
        return {}
    with _lock:
        ranked = _identifier().rank(" ".join(letters.split()))
    weighed = {code: float(found) * _SELDOM.get(code, 1.0) for code, found in ranked}
    total = sum(weighed.values())
    return {code: weighed[code] / total for code in sorted(weighed, key=lambda code: (-weighed[code], code))}


def chance_of(expected: Collection[str], found: Mapping[str, float]) -> float:
    """Return how probable it is that a text is in one of the languages expected.

    Args:
        expected: Codes of languages; before the text is read they are :data:`FAVOUR` times as probable as others.
        found: What :func:`probabilities` says of the text.
    """
    right = FAVOUR * sum(found.get(code, 0.0) for code in expected)
    wrong = sum(chance for code, chance in found.items() if code not in expected)
    return right / (right + wrong) if right else 0.0


def detect(text: str, certain: float = CERTAIN) -> Language | None:
    """Return the language of a text, ``None`` where that is not sure.

    Args:
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
