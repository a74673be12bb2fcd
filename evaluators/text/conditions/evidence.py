"""What a reader is told of a condition that was checked: the part that failed, and where operands were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leadline.evaluators.core.row import ContextChunk, Source, Span
from leadline.evaluators.text.conditions.check import Match, Outcome

JOINT: Final = " "
"""What stands between two chunks when a condition looks at the retrieved context."""

_SHOWN: Final = 500
"""Most characters of a condition in a message."""


def joined(chunks: Sequence[ContextChunk]) -> str:
    """Return the retrieved context as one text."""
    return JOINT.join(chunk.content for chunk in chunks)


def failure(what: str, condition: str, outcome: Outcome) -> str:
    """Return one or two sentences about a condition that does not hold, ``""`` when it does.

    Args:
        what: What was checked, at the beginning of a sentence.
        condition: The condition in its source form.
        outcome: What became of it.
    """
    if outcome.matched:
        return ""
    message = f"{what} did not satisfy the condition: {_short(condition)}."
    if outcome.failed != condition.strip():
        message += f" The part that did not match: {_short(outcome.failed)}."
    return message


def note(match: Match) -> str:
    """Return what a span of an operand is called."""
    return _short(f"unwanted: {match.operand}" if match.unwanted else match.operand)


def answer_spans(outcome: Outcome) -> Iterator[Span]:
    """Yield where operands stand in the answer."""
    for match in outcome.matches:
        yield Span(Source.ACTUAL_ANSWER, match.start, match.end, note=note(match))


def context_spans(outcome: Outcome, chunks: Sequence[ContextChunk]) -> Iterator[Span]:
    """Yield where operands that were found in the joined chunks stand in them; one may reach over several."""
    for match in outcome.matches:
        begin = 0
        for index, chunk in enumerate(chunks):
            start, end = max(match.start - begin, 0), min(match.end - begin, len(chunk.content))
            if start < end:
                yield Span(Source.RETRIEVED_CONTEXT, start, end, index, note=note(match))
            begin += len(chunk.content) + len(JOINT)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
