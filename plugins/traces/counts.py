"""Counts of what was read from traces, and of what could not be used, with sentences for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class TraceCounts:
    """Numbers of what was met.

    Attributes:
        spans: Spans read.
        events: Log records that belong to a span.
        traces: Traces.
        conversations: Conversations that have messages.
        pending: Traces whose root has not ended.
        empty: Conversations without a message.
        not_captured: Calls of a model without prompt and answer.
        unanswered: Calls of a model with a prompt, but without what it answered or why it did not.
        elsewhere: Calls of a model whose content is kept at another place.
        ids_only: Retrievals that name documents without their texts.
        malformed: Spans and documents that could not be read.
        unreadable: Contents of spans that are no messages, kept as texts.
        repeated: Spans that were there twice.
        circles: Spans that are their own ancestors.
        clocks: Spans that begin before their parents or end before they begin.
        unmatched: Calls of tools that no message has; they are steps.
        rewritten: Conversations whose history was shortened or summarised on the way.
        apart: Scores and traces that stand in files of their own, and whose spans do not.
        too_large: Conversations of more spans or bytes than are put together at once.
        faults: What was wrong with the first malformed parts.
    """

    spans: int = 0
    events: int = 0
    traces: int = 0
    conversations: int = 0
    pending: int = 0
    empty: int = 0
    not_captured: int = 0
    unanswered: int = 0
    elsewhere: int = 0
    ids_only: int = 0
    malformed: int = 0
    unreadable: int = 0
    repeated: int = 0
    circles: int = 0
    clocks: int = 0
    unmatched: int = 0
    rewritten: int = 0
    apart: int = 0
    too_large: int = 0
    faults: tuple[str, ...] = ()

    def fault(self, what: str) -> None:
        """Count something malformed, and keep the first reasons."""
        self.malformed += 1
        if len(self.faults) < _FAULTS and what not in self.faults:
            self.faults = (*self.faults, what)

    def sentences(self) -> Iterator[str]:
        """Yield what was read, and then all of which something is missing."""
        yield (
            f"{_number(self.spans, 'span')} of {_number(self.traces, 'trace')} "
            f"make {_number(self.conversations, 'conversation')}."
        )
        for name, (one, several) in _SENTENCES.items():
            if number := getattr(self, name):
                yield f"{number:,} {one if number == 1 else several}."
        yield from (f"Malformed: {what}." for what in self.faults)


_FAULTS: Final = 5
_SENTENCES: Final = {
    "pending": (
        "trace has not ended and is not loaded; load again when it has",
        "traces have not ended and are not loaded; load again when they have",
    ),
    "empty": ("conversation has no message and is not loaded", "conversations have no message and are not loaded"),
    "not_captured": (
        "call of a model has no content: switch on the capture of message content where the application is traced",
        "calls of models have no content: switch on the capture of message content where the application is traced",
    ),
    "unanswered": (
        "call of a model has no answer recorded, so that a turn may seem to end without one",
        "calls of models have no answer recorded, so that turns may seem to end without one",
    ),
    "elsewhere": (
        "call of a model keeps its content at another place, which is not read",
        "calls of models keep their content at another place, which is not read",
    ),
    "ids_only": (
        "retrieval has ids of documents only; --corpus FILE gives their texts, or contexts cannot be measured",
        "retrievals have ids of documents only; --corpus FILE gives their texts, or contexts cannot be measured",
    ),
    "malformed": ("span or document could not be read", "spans or documents could not be read"),
    "unreadable": (
        "content is in no known form of messages and was read as a text",
        "contents are in no known form of messages and were read as texts",
    ),
    "repeated": ("span was there twice", "spans were there twice"),
    "circles": ("span was its own ancestor and stands as a root", "spans were their own ancestors and stand as roots"),
    "clocks": (
        "span began before its parent or ended before it began; its times are corrected or left out",
        "spans began before their parents or ended before they began; their times are corrected or left out",
    ),
    "unmatched": (
        "call of a tool stands in no message and is a step only",
        "calls of tools stand in no message and are steps only",
    ),
    "rewritten": (
        "conversation had its history shortened or summarised on the way",
        "conversations had their history shortened or summarised on the way",
    ),
    "apart": (
        "score or trace has its spans in no file that is here",
        "scores or traces have their spans in no file that is here",
    ),
    "too_large": (
        "conversation is too large to be put together and is not loaded",
        "conversations are too large to be put together and are not loaded",
    ),
}


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
