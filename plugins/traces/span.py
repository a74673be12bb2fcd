"""A span in one form, whatever instrumentation wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from leadline.evaluators.data import GivenChunk, Json, Message, Tool

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
