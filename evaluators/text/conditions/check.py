r"""Checks whether a text satisfies a text-matching condition, and shows which part failed and what was found where.

A string matches where it occurs, case-sensitively. A pattern matches as ``re.search`` without flags does (see
:mod:`leadline.evaluators.text.conditions.patterns`). ``""`` and ``regexp("")`` match every text.

**Part of a text.** The known text may be incomplete; the rest are lines of their own. An operand that is
absent may stand there and is unknown then. So is a pattern that matches but may not when the text goes on, since it
looks at the end (``$``, ``\Z``), at absence (``(?!...)``, ``(?<!...)``), or matches in a way that depends on what else
could (``(?>...)``, ``a*+``, back-references, conditional groups). What is certain in spite of that follows from
Kleene's strong three-valued logic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from leadline.evaluators.data import ContextChunk, Source, Span
from leadline.evaluators.text.conditions.grammar import And, Node, Not, Or, Regexp, Text, shortened
from leadline.evaluators.text.conditions.patterns import search

DEFAULT_TIMEOUT: Final = 2.0
"""Seconds that the regular expressions of one condition may take on one text, all together."""

JOINT: Final = " "
"""The text between two chunks when a condition is checked on the retrieved context."""

_SHOWN: Final = 500
"""Most characters of a condition in a message."""


class Match(NamedTuple):
    """An operand of a condition that was found in a text.

    Attributes:
        start: First character.
        end: One past the last character.
        operand: The operand as it is written in the condition.
        unwanted: Whether it stands under an odd number of NOTs.
    """

    start: int
    end: int
    operand: str
    unwanted: bool


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """The result of a condition on one text.

    Attributes:
        matched: Whether the condition is known to hold.
        failed: The part of the condition that decided that it does not, in its source form: the first failing
            operand of an AND, or an OR or a NOT in full. Empty when it is met.
        matches: First occurrences of the operands that were looked for and found. AND and OR stop as soon as they
            are decided.
        certain: Whether it would hold, or not hold, whatever else the text contained.
    """

    matched: bool
    failed: str
    matches: tuple[Match, ...]
    certain: bool = True

    def __bool__(self) -> bool:
        return self.matched


def evaluate(
    node: Node,
    text: str,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    complete: bool = True,
    readings: Sequence[tuple[int, int]] = (),
) -> ConditionOutcome:
    """Check a condition on a text.

    Args:
        node: The condition.
        timeout: Seconds that its regular expressions may take, all together.
        complete: Whether this is all of the text. If not, an operand may be unknown (see the module), and so may be
            the condition.
        readings: Stretches (first character, one past the last) that make up the text, with a line break between
            two, each of which may be the text that was meant. A pattern matches too if it does in one of them by
            itself, so that ``^`` and ``$`` mean its limits. Only what it demands to be absent, ``(?!...)``, has to be
            so in all of them, so that they are read in one, with blanks for these line breaks (under NOT, to match in
            any is enough).

    Raises:
        TimeoutError: Its regular expressions took longer than ``timeout`` seconds, all together.
    """
    walk = _Walk(text, time.monotonic() + timeout, complete=complete, readings=readings)
    holds, failed = walk.run(node, unwanted=False)
    return ConditionOutcome(holds is True, failed, tuple(walk.matches), certain=holds is not None)


class _Walk:
    """A walk over a condition: for each part, whether it holds (``None``: unknown) and, if not, what decided that."""

    def __init__(self, text: str, deadline: float, *, complete: bool, readings: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.deadline = deadline
        self.complete = complete
        self.readings = readings
        self.matches: list[Match] = []

    def run(self, node: Node, *, unwanted: bool) -> tuple[bool | None, str]:
        match node:
            case Text() | Regexp():
                return self.operand(node, unwanted)
            case Not(operand, source):
                holds, _ = self.run(operand, unwanted=not unwanted)
                return (True, "") if holds is False else (None if holds is None else False, str(source))
            case And(operands):
                value: bool | None = True
                first = ""
                for operand in operands:
                    holds, failed = self.run(operand, unwanted=unwanted)
                    if holds is False:
                        return False, failed
                    if holds is None and value:
                        value, first = None, failed
                return value, first
            case Or(operands, source):
                value = False
                for operand in operands:
                    holds, _ = self.run(operand, unwanted=unwanted)
                    if holds:
                        return True, ""
                    value = None if holds is None else value
                return value, str(source)

    def operand(self, node: Text | Regexp, unwanted: bool) -> tuple[bool | None, str]:
        found = self.string(node.value) if isinstance(node, Text) else self.pattern(node, unwanted)
        if found is None:
            return (False if self.complete else None), str(node.source)
        if not self.complete and isinstance(node, Regexp) and may_turn(node.pattern):
            return None, str(node.source)
        if found[0] < found[1]:
            self.matches.append(Match(*found, str(node.source), unwanted))
        return True, ""

    def string(self, value: str) -> tuple[int, int] | None:
        start = self.text.find(value)
        return None if start < 0 else (start, start + len(value))

    def pattern(self, node: Regexp, unwanted: bool) -> tuple[int, int] | None:
        try:
            for origin, text in self.texts(node.pattern, unwanted):
                found = search(node.pattern, text, self.deadline - time.monotonic())
                if found is not None:
                    return origin + found[0], origin + found[1]
        except TimeoutError:
            raise TimeoutError(f"{shortened(str(node.source), 200)} took too long on this text") from None
        return None

    def texts(self, pattern: str, unwanted: bool) -> Iterator[tuple[int, str]]:
        """Yield the texts that a pattern is searched in, each with its place in the full text."""
        if self.readings and not unwanted and _ABSENCE.search(pattern):
            yield 0, " ".join(self.text[start:end] for start, end in self.readings)
            return
        yield 0, self.text
        for start, end in self.readings:
            yield start, self.text[start:end]


_ABSENCE: Final = re.compile(r"\(\?<?!")

_PIECE: Final = re.compile(
    r"""\\.                                                    # an escape
    | \[\^?\]?(?:\\.|[^\\\]])*+\]                              # a set
    | \(\?(?:[:=]|<=|P<|[aiLmsux]*(?:-[imsx]+)?[:)])           # a group that asserts no absence
    | \(\?                                                     # another group
    | (?:[*+?]|\{[0-9]*,?[0-9]*\})\+?                          # a repeat, possessive with a plus
    | .""",
    re.DOTALL | re.VERBOSE,
)
_TURNING: Final = re.compile(r"\$|\\[Zz1-9]|\(\?|(?:[*+?]|\{.*\})\+")


def may_turn(pattern: str) -> bool:
    """Return whether a valid pattern that matches a text may not match it once more lines follow; in doubt, it may.

    A search for a match that only looks at what is there still finds the one it found. That is so as long as the
    pattern asserts no end and no absence, gives back what it took, and nothing in it depends on what a group matched.
    """
    return any(_TURNING.fullmatch(piece) for piece in _PIECE.findall(pattern))


def joined(chunks: Sequence[ContextChunk]) -> str:
    """Return the retrieved context as one text."""
    return JOINT.join(chunk.content for chunk in chunks)


def failure(what: str, condition: str, outcome: ConditionOutcome) -> str:
    """Return one or two sentences about a condition that does not hold, ``""`` when it does.

    Args:
        what: What was checked, at the beginning of a sentence.
        condition: The condition in its source form.
        outcome: Its result.
    """
    if outcome.matched:
        return ""
    message = f"{what} did not satisfy the condition: {_shown(condition)}."
    if outcome.failed != condition.strip():
        message += f" The part that did not match: {_shown(outcome.failed)}."
    return message


def note(match: Match) -> str:
    """Return the note of a span that shows an operand."""
    return _shown(f"unwanted: {match.operand}" if match.unwanted else match.operand)


def answer_spans(outcome: ConditionOutcome) -> Iterator[Span]:
    """Yield the spans of the operands in the answer."""
    for match in outcome.matches:
        yield Span(Source.ACTUAL_ANSWER, match.start, match.end, note=note(match))


def context_spans(outcome: ConditionOutcome, chunks: Sequence[ContextChunk]) -> Iterator[Span]:
    """Yield the spans of the operands in the chunks; an operand that reaches over several has one in each.

    Args:
        outcome: The result on the joined chunks.
    """
    for match in outcome.matches:
        begin = 0
        for index, chunk in enumerate(chunks):
            start, end = max(match.start - begin, 0), min(match.end - begin, len(chunk.content))
            if start < end:
                yield Span(Source.RETRIEVED_CONTEXT, start, end, index, note=note(match))
            begin += len(chunk.content) + len(JOINT)


def _shown(text: str) -> str:
    return shortened(text.strip(), _SHOWN)
