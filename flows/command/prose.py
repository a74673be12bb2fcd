"""Docstrings for people at a terminal: the marks of reStructuredText and Markdown taken off, the layout kept."""

from __future__ import annotations

import re
from typing import Final

_MARKS: Final = (
    (re.compile(r":\w+:`~(?:[\w.]*\.)?(\w+)`"), r"\1"),  # :func:`~package.name`
    (re.compile(r":\w+:`([^`]+)`"), r"\1"),
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r"`([^`]+)`"), r"\1"),
    (re.compile(r"\*\*(\S(?:[^*]*\S)?)\*\*"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\((https?://[^)\s]+)\)"), r"\1 (\2)"),
    (re.compile(r"::$", re.MULTILINE), ":"),
    (re.compile(r"^(\s*)\* ", re.MULTILINE), r"\1- "),
)


def plain_text(text: str) -> str:
    """Return a text without its markup: code, emphasis and references read as words."""
    for mark, words in _MARKS:
        text = mark.sub(words, text)
    return text
