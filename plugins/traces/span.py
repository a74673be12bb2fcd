"""A span in one form, whatever instrumentation wrote it, and counts of what was read and could not be used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from leadline.evaluators.data import GivenChunk, Json, Message, Tool
from leadline.evaluators.ground import count

Kind: TypeAlias = Literal["llm", "tool", "retriever", "agent", "chain", "other"]

NOT_CAPTURED: Final = "not captured"
ELSEWHERE: Final = "kept elsewhere"
IDS_ONLY: Final = "retrieval ids only"


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a span; ``None`` for what it does not say.

    Attributes:
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cost_usd: US dollars.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Annotated:
    """An opinion of a span, its trace or its session, of a person or a program.

    Attributes:
        name: What is rated.
        value: The score, or the label where there is no score.
        person: Who rated it, ``""`` for nobody in particular.
        human: Whether it was a person; else it is metadata.
        note: The explanation.
    """

    name: str
    value: float | bool | str
    person: str = ""
    human: bool = False
    note: str = ""


@dataclass(slots=True)  # a frozen one takes several times as long to make
class TraceSpan:
    """One span.

    Attributes:
        trace: Id of its trace.
        id: Its id, unique in the trace.
        parent: Id of its parent, ``""`` for a root.
        kind: What it is.
        name: Its name: of a tool span the tool's, of an agent span the agent's.
        start_ns: When it began, in nanoseconds since 1970.
        end_ns: When it ended, 0 where it has not.
        error: What failed, ``None`` where nothing did.
        session: Id of the conversation, ``""`` where the span names none.
        model: The model that was asked.
        inputs: The messages that went in, ``None`` where none are recorded.
        outputs: The messages that came out, ``None`` where none are recorded.
        call_id: Of a tool span, the id of the call that it carries out, ``""`` where it does not say.
        arguments: Of a tool span, what the tool was called with.
        result: Of a tool span, the text that it returned, ``None`` where it is not recorded.
        documents: Of a retriever span, what it found, in rank order.
        tools: The tools that were offered to the model.
        passes_control: Of an agent or tool span: the agent that it transfers to answers in the caller's place.
        usage: What it cost.
        missing: Why its content is not here, :data:`NOT_CAPTURED`, :data:`ELSEWHERE` or :data:`IDS_ONLY`; else ``""``.
        annotations: What was said of it.
        metadata: Further facts that a case should keep, of its resource or its attributes.
    """

    trace: str
    id: str
    parent: str = ""
    kind: Kind = "other"
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    error: str | None = None
    session: str = ""
    model: str = ""
    inputs: Sequence[Message] | None = None
    outputs: Sequence[Message] | None = None
    call_id: str = ""
    arguments: Mapping[str, Json] | None = None
    result: str | None = None
    documents: Sequence[GivenChunk] = ()
    tools: Sequence[Tool] | None = None
    passes_control: bool = False
    usage: Usage = Usage()
    missing: str = ""
    annotations: Sequence[Annotated] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)


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
        spans, traces = count(self.spans, "span"), count(self.traces, "trace")
        make = "makes" if self.spans == 1 else "make"
        yield f"{spans} of {traces} {make} {count(self.conversations, 'conversation')}."
        for name, sentence in _SENTENCES.items():
            if number := getattr(self, name):
                form = r"\1" if number == 1 else r"\2"
                yield f"{number:,} {_FORMS.sub(form, sentence)}."
        yield from (f"Malformed: {what}." for what in self.faults)


_FAULTS: Final = 5
_FORMS: Final = re.compile(r"\[(.*?)\|(.*?)\]")
"""Words for one and for several."""
_SENTENCES: Final = {
    "pending": "trace[ has|s have] not ended and [is|are] not loaded; load again when [it has|they have]",
    "empty": "conversation[ has|s have] no message and [is|are] not loaded",
    "not_captured": "[call of a model has|calls of models have] no content: switch on the capture of message content "
    "where the application is traced",
    "unanswered": "[call of a model has|calls of models have] no answer recorded, so that [a turn|turns] may seem to "
    "end without one",
    "elsewhere": "[call of a model keeps its|calls of models keep their] content at another place, which is not read",
    "ids_only": "retrieval[ has|s have] ids of documents only; --corpus FILE gives their texts, or contexts cannot be "
    "measured",
    "malformed": "span[ or document|s or documents] could not be read",
    "unreadable": "content[ is|s are] in no known form of messages and [was read as a text|were read as texts]",
    "repeated": "span[ was|s were] there twice",
    "circles": "[span was its own ancestor and stands as a root|spans were their own ancestors and stand as roots]",
    "clocks": "span[ began before its parent|s began before their parents] or ended before [it|they] began; "
    "[its|their] times are corrected or left out",
    "unmatched": "[call of a tool stands in no message and is a step|calls of tools stand in no message and are steps] "
    "only",
    "rewritten": "conversation[|s] had [its|their] history shortened or summarised on the way",
    "apart": "[score or trace has its|scores or traces have their] spans in no file that is here",
    "too_large": "conversation[ is|s are] too large to be put together and [is|are] not loaded",
}
