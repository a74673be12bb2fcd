"""Texts with stretches marked in them, as HTML; and what two texts differ in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from leadline.evaluators.ground import visible

MOST_WORDS: Final = 4_000
"""Words of a text up to which differences are looked for; more take too long."""

_MARK: Final = Markup('<mark title="{}">{}</mark>')
_GONE: Final = Markup("<del>{}</del>")
_NEW: Final = Markup("<ins>{}</ins>")
_WORD: Final = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)


class TextMark(NamedTuple):
    """A stretch of a text, in code points, and what is said of it."""

    start: int
    end: int
    note: str


def marked(text: str, marks: Iterable[TextMark]) -> Markup:
    """Return a text with stretches marked; where two overlap, the one that begins first is cut short."""
    parts: list[Markup] = []
    at = 0
    ordered = sorted(mark for mark in set(marks) if 0 <= mark.start < mark.end <= len(text))
    for place, mark in enumerate(ordered):
        following = ordered[place + 1].start if place + 1 < len(ordered) else len(text)
        start, end = max(at, mark.start), min(mark.end, max(following, at))
        if start >= end:
            continue
        parts += [_safe(text[at:start]), _MARK.format(visible(mark.note), visible(text[start:end]))]
        at = end
    return Markup("").join([*parts, _safe(text[at:])])


def word_differences(before: str, after: str) -> tuple[Markup, Markup]:
    """Return two texts with the words marked that only one of them has."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return _safe(before), _safe(after)
    left, right = [], []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[a:b]), "".join(new[c:d])
        if gone:
            left.append(_safe(gone) if kind == "equal" else _GONE.format(visible(gone)))
        if come:
            right.append(_safe(come) if kind == "equal" else _NEW.format(visible(come)))
    return Markup("").join(left), Markup("").join(right)


def _safe(text: str) -> Markup:
    return escape(visible(text))
