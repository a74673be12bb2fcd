"""The summary of a check as Markdown within the size a forge takes; hostile texts in it are shown as they are.

A comment is read by a machine of its own after Markdown is: ``@name`` calls a person, ``#1``, ``!1`` and ``~label``
become links, an address is one without any brackets, and a line ``/close`` is a command on GitLab. Backslashes stop
Markdown, but not that machine, which sees the text that Markdown leaves. It leaves code alone, though. So keys and
names stand in code, long texts in fenced code, and in sentences an invisible character follows each sign that it looks
for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.ground import count, masked, nouns, visible
from leadline.plugins.ci.change_facts import CheckOutcome, Verdict
from leadline.tasks.ground.numbers import duration, figure, movement
from leadline.tasks.ground.templating import markdown, render
from leadline.tasks.runs.run_sentences import cost_line, work_line

LARGEST: Final = 65_536
"""Bytes of a summary: GitHub's limit of a comment, there of characters; GitLab takes more."""

SYMBOLS: Final[dict[Verdict, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "≈", "error": "✗"}
_WORST: Final[tuple[Verdict, ...]] = ("error", "fail", "inconclusive", "pass")
_ONE: Final[dict[Verdict, str]] = {
    "pass": "the check passes",
    "fail": "the check fails",
    "inconclusive": "it cannot be told whether the check passes",
    "error": "the check could not be made",
}
_SEVERAL: Final[dict[Verdict, str]] = {
    "fail": "{n} of {all} checks fail",
    "inconclusive": "of {n} of {all} checks it cannot be told whether they pass",
    "error": "{n} of {all} checks could not be made",
}
_TOO_LONG: Final = "\n\nThe summary is longer than a comment may be, and was cut: {} has all of it.\n"
_JOINER: Final = "\u2060"
"""WORD JOINER: it has no width, and no name, number or address goes on beyond it."""

_SIGNS: Final = re.compile(r"(?<=[@#!~%&:/])(?=[\w/\"'\\])|(?<=[Ww][Ww][Ww])(?=\.)|(?<=[Gg][Hh])(?=-\d)")
_DOLLAR: Final = "\uff04"
_TICKS: Final = re.compile("`+")


@dataclass(frozen=True, slots=True)
class Detail:
    """Size of a summary: characters of a text, and how many there may be of each thing.

    Attributes:
        text: Characters of a question, an answer or a reason; 0 for no examples.
    """

    text: int
    names: int
    lines: int


DETAILS: Final = (Detail(1200, 20, 12), Detail(500, 10, 8), Detail(160, 5, 5), Detail(0, 3, 3), Detail(0, 0, 0))
"""From the fullest to the shortest; the first that fits is taken."""


def summarise(
    outcomes: Sequence[CheckOutcome], *, title: str, where: str, link: str = "", largest: int = LARGEST
) -> str:
    """Return the summary of all checks as Markdown.

    Args:
        where: Where all results are, for the reader: "the job's artifacts".
        link: Address of the job's page, or "".
    """
    for detail in DETAILS:
        text = render(
            "leadline.plugins.ci",
            "summary.md",
            outcomes=outcomes,
            headline=headline(outcomes),
            symbol=SYMBOLS[worst(outcomes)],
            title=title,
            where=where,
            link=link,
            detail=detail,
            sentence=sentence,
            code=code,
            block=block,
            symbols=SYMBOLS,
            verdicts=_ONE,
            movement=movement,
            figure=figure,
            count=count,
            nouns=nouns,
            duration=duration,
            cost_line=cost_line,
            work_line=work_line,
        ).strip()
        if len(text.encode()) <= largest:
            return f"{text}\n"
    end = _TOO_LONG.format(where)
    return text.encode()[: largest - len(end.encode())].decode(errors="ignore").rpartition("\n\n")[0] + end


def worst(outcomes: Sequence[CheckOutcome]) -> Verdict:
    """Return the worst verdict; ``pass`` without checks."""
    found = {outcome.verdict for outcome in outcomes}
    return next((verdict for verdict in _WORST if verdict in found), "pass")


def headline(outcomes: Sequence[CheckOutcome]) -> str:
    """Return all verdicts in one line: "the check fails", "2 of 3 checks fail"."""
    if len(outcomes) == 1:
        return _ONE[outcomes[0].verdict]
    numbers = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in _SEVERAL}
    parts = [_SEVERAL[verdict].format(n=n, all=len(outcomes)) for verdict, n in numbers.items() if n]
    return "; ".join(parts) or f"all {len(outcomes):,} checks pass"


def sentence(text: object, limit: int = 600) -> str:
    """Return a text for a sentence, on one line: no Markdown, and nothing that a forge makes a link or a call of."""
    plain = _begun(text, limit).replace("$", _DOLLAR)
    return _SIGNS.sub(_JOINER, markdown(plain, limit))


def code(text: object, limit: int = 120) -> str:
    """Return a text as code within a line or a table's cell.

    Args:
        text: The text, such as a case's key.
    """
    line = " ".join(_begun(text, limit).split()) or " "
    line = visible(line if len(line) <= limit else f"{line[: limit - 1]}…")
    fence = "`" * (_longest_ticks(line) + 1)
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    # A table is cut into cells before anything else is read: a bar is replaced by one that only looks like it.
    return f"{fence}{space}{line}{space}{fence}".replace("|", "\u2223")


def block(text: object, limit: int = 600) -> str:
    """Return a text as a block of code of its own, with its lines."""
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
