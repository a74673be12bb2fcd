"""Messages of a conversation, the tools called in it, and its turns.

A conversation is a list of messages in the form below, in OpenAI's names. Loading brings every dataset and trace into
exactly this form: roles and contents as texts, arguments as objects, ids of calls renumbered from ``"1"`` in the order
of the messages; no times, no ids of spans. So equal conversations are equal lists::

    [{"role": "system", "content": "You help skippers."},
     {"role": "user", "content": "How high is the tide?"},
     {"role": "assistant", "content": "Let me look.",
      "tool_calls": [{"id": "1", "name": "get_tide", "arguments": {"harbour": "Lisbon"}}]},
     {"role": "tool", "tool_call_id": "1", "name": "get_tide", "content": "5.4 m"},
     {"role": "assistant", "content": "5.4 m.", "retrieved_context": [{"content": "High water is 5.4 m."}]}]

A **turn** is a message of the user, or several in a row, with all up to the next one. Its answer is the last text of
the assistant in it. What stands before the first message of the user, a greeting, is a turn without a question; system
messages belong to no turn. Calls in one message of the assistant are parallel: their order means nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, NotRequired, Required, TypeAlias, TypedDict

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

RAW: Final = "_raw"
"""Argument that stands for all where what a model wrote as arguments is no JSON object: the text it wrote."""


class ToolCall(TypedDict):
    """A call of a tool: ``id`` is its number in the conversation, ``arguments`` what it is called with, by name."""

    id: str
    name: str
    arguments: Mapping[str, Json]


class GivenChunk(TypedDict):
    """A piece of text that was retrieved for a message, with the document that it came from."""

    content: str
    doc_uri: NotRequired[str]


class Message(TypedDict, total=False):
    """One message.

    Attributes:
        role: Who says it.
        content: Its text, ``""`` where it only calls tools. What is no text stands as ``[image]``, ``[audio]``, ….
        tool_calls: The tools that the assistant calls, in parallel.
        tool_call_id: Of a tool's result, the call that it answers.
        name: Of a tool's result, the tool; of a message of the assistant, the agent that says it, if it has a name.
        error: Of a tool's result, what failed. A refusal that the tool told in its text alone is none.
        reasoning: What the assistant thought before, which the user does not see.
        retrieved_context: What was retrieved for this message of the assistant, in rank order.
        expected_answers: Acceptable answers to this message of the user.
    """

    role: Required[Role]
    content: Required[str]
    tool_calls: Sequence[ToolCall]
    tool_call_id: str
    name: str
    error: str
    reasoning: str
    retrieved_context: Sequence[GivenChunk]
    expected_answers: Sequence[str]


Messages: TypeAlias = Sequence[Message]


class ExpectedCall(TypedDict, total=False):
    """A call that a case expects.

    Attributes:
        name: The tool.
        arguments: What it is to be called with; any arguments will do where they are left out.
        any_of: Further sets of arguments that will do as well.
        turn: The turn in which it is expected, from 1; any where it is left out.
    """

    name: Required[str]
    arguments: Mapping[str, Json]
    any_of: Sequence[Mapping[str, Json]]
    turn: int


class Tool(TypedDict, total=False):
    """A tool that the model could call.

    Attributes:
        name: Its name.
        description: What the model is told of it.
        parameters: JSON Schema of its arguments.
        read_only: Whether calling it changes nothing.
    """

    name: Required[str]
    description: str
    parameters: Mapping[str, Json]
    read_only: bool


class TraceStep(TypedDict, total=False):
    """One thing that an application did for an answer, as it recorded it: a span.

    Attributes:
        step: Its number, from 0 in order of start.
        parent: The step that it is a part of.
        kind: ``llm``, ``tool``, ``retriever``, ``agent``, ``chain`` or ``other``.
        name: Its name.
        turn: The turn that it belongs to, from 1.
        error: What failed; ``""`` where only that is known.
        start_ms: When it began, in milliseconds after the first.
        duration_ms: How long it took.
        model: The model that was asked.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cost_usd: What it cost.
    """

    step: Required[int]
    parent: int
    kind: Required[Literal["llm", "tool", "retriever", "agent", "chain", "other"]]
    name: Required[str]
    turn: int
    error: str
    start_ms: float
    duration_ms: float
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float


class MadeCall(NamedTuple):
    """A call of a tool with its result.

    Attributes:
        name: The tool.
        arguments: What it was called with, by name.
        result: The text that it returned, ``None`` where none is recorded.
        error: What failed, ``None`` where nothing did.
        message: Position of the message that calls it; those of one message are parallel.
        turn: The turn, from 1.
    """

    name: str
    arguments: Mapping[str, Json]
    result: str | None
    error: str | None
    message: int
    turn: int


class Turn(NamedTuple):
    """A turn of a conversation.

    Attributes:
        first: Position of its first message.
        end: Position after its last one.
        question: The texts of the user that open it; ``None`` in a turn that has none.
        answer: The last text of the assistant, ``None`` where there is none.
        retrieved_context: What was retrieved in it, each text once.
        expected_answers: Acceptable answers, as the messages of the user name them.
    """

    first: int
    end: int
    question: str | None
    answer: str | None
    retrieved_context: tuple[GivenChunk, ...]
    expected_answers: tuple[str, ...]


def turns_of(messages: Messages) -> list[Turn]:
    """Return the turns of a conversation, in order."""
    starts: list[int] = []
    before = ""
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "system":
            continue
        if not starts or (role == "user" != before):
            starts.append(place)
        before = role
    ends = [*starts[1:], len(messages)] if starts else []
    return [_turn(messages, first, end) for first, end in zip(starts, ends, strict=True)]


def _turn(messages: Messages, first: int, end: int) -> Turn:
    part = messages[first:end]
    asked = [message["content"] for message in part if message["role"] == "user"]
    said = [message["content"] for message in part if message["role"] == "assistant" and message["content"]]
    chunks = {chunk["content"]: chunk for message in part for chunk in message.get("retrieved_context", ())}
    expected = (text for message in part if message["role"] == "user" for text in message.get("expected_answers", ()))
    question = "\n".join(asked) if asked else None
    return Turn(first, end, question, said[-1] if said else None, tuple(chunks.values()), tuple(expected))


def calls_of(messages: Messages) -> list[MadeCall]:
    """Return the calls of tools in a conversation, or in a turn of it, with their results."""
    results = {message["tool_call_id"]: message for message in messages if message.get("tool_call_id")}
    found = []
    for number, turn in enumerate(turns_of(messages), start=1):
        for place in range(turn.first, turn.end):
            for call in messages[place].get("tool_calls", ()):
                result = results.get(call["id"])
                text, error = (result["content"], result.get("error")) if result else (None, None)
                found.append(MadeCall(call["name"], call["arguments"], text, error, place, number))
    return found


class DialogueLine(NamedTuple):
    """A message as people read it, with what its calls returned; results have no line of their own.

    Attributes:
        calls: The calls that it makes.
        turn: The turn that it belongs to, from 1; 0 before the first.
        opens: Whether that turn begins with it.
    """

    message: Message
    calls: tuple[MadeCall, ...]
    turn: int
    opens: bool


def dialogue_of(messages: Messages) -> list[DialogueLine]:
    """Return the messages of a conversation as people read them."""
    calls: defaultdict[int, list[MadeCall]] = defaultdict(list)
    for call in calls_of(messages):
        calls[call.message].append(call)
    answered = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    starts = [turn.first for turn in turns_of(messages)]
    firsts = set(starts)
    return [
        DialogueLine(message, tuple(calls.get(place, ())), bisect_right(starts, place), place in firsts)
        for place, message in enumerate(messages)
        if message["role"] != "tool" or message.get("tool_call_id") not in answered
    ]
