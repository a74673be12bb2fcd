"""Hostile texts in the Markdown of a forge: shown as they are, and nobody is called, linked to or asked to do anything.

A comment is read by a machine of its own after Markdown is: ``@name`` calls a person, ``#1``, ``!1`` and ``~label``
become links, an address is one without any brackets, and a line ``/close`` is a command on GitLab. Backslashes stop
Markdown, but not that machine, which sees the text that Markdown leaves. It leaves code alone, though. So keys and
names stand in code, long texts in fenced code, and in sentences an invisible character follows each sign that it looks
for.
"""

from __future__ import annotations

import re
from typing import Final

from leadline.evaluators.ground.secret_values import masked
from leadline.evaluators.ground.text import visible
from leadline.tasks.ground.templating import markdown

_JOINER: Final = "\u2060"
"""WORD JOINER: it has no width, and no name, number or address goes on beyond it."""

_SIGNS: Final = re.compile(r"(?<=[@#!~%&:/])(?=[\w/\"'\\])|(?<=[Ww][Ww][Ww])(?=\.)|(?<=[Gg][Hh])(?=-\d)")
_DOLLAR: Final = "\uff04"
_TICKS: Final = re.compile("`+")


def sentence(text: object, limit: int = 600) -> str:
    """Return a text for a sentence, on one line: no Markdown, and nothing that a forge makes a link or a call of.

    Args:
        limit: The characters after which it is cut.
    """
    plain = _begun(text, limit).replace("$", _DOLLAR)
    return _SIGNS.sub(_JOINER, markdown(plain, limit))


def code(text: object, limit: int = 120) -> str:
    """Return a text as code within a line or a table's cell.

    Args:
        text: The text, such as a case's key.
        limit: The characters after which it is cut.
    """
    line = " ".join(_begun(text, limit).split()) or " "
    line = visible(line if len(line) <= limit else f"{line[: limit - 1]}…")
    fence = "`" * (_longest_ticks(line) + 1)
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    # A table is cut into cells before anything else is read: a bar is replaced by one that only looks like it.
    return f"{fence}{space}{line}{space}{fence}".replace("|", "\u2223")


def block(text: object, limit: int = 600) -> str:
    """Return a text as a block of code of its own, with its lines.

    Args:
        text: The text, such as an answer.
        limit: The characters after which it is cut.
    """
    whole, n = _begun(text, limit), len(str(text))
    cut = f"{whole[:limit]}… ({n - limit:,} more characters)" if n > limit else whole
    lines = visible("\n".join(cut.splitlines()))
    fence = "`" * max(3, _longest_ticks(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}"


def _begun(text: object, limit: int) -> str:
    """Return the beginning of a text, of which not much more than the limit is shown, without secrets."""
    return masked(str(text)[: 20 * limit])


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
