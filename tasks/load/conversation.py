"""A conversation as a format hands it to loading, and the turns that are staged of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from leadline.evaluators.data import ExpectedCall, Json, Message, Tool, TraceStep, Turn, calls_of, turns_of
from leadline.tasks.load.label import GivenLabel
from leadline.tasks.load.values import Chunks, ValueFault

HISTORY: Final = 10
"""Messages before a turn that its history reaches back, as deepeval's window does: a turn that is added, or an early
message that is edited, changes what is read of the next few turns only."""

LONGEST_RESULT: Final = 2_000
"""Characters of a tool's result in a history; what is cut is marked."""

CUT: Final = " [… {left:,} characters left out]"

RECORDINGS_FILE: Final = "recordings.parquet"
"""In a suite of conversations, what :meth:`Conversation.recording` gives, beside the key of the case."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with one model, and its case.

    Attributes:
        messages: All messages, in the form of :mod:`leadline.evaluators.data.messages`.
        key: Key of the case, ``""`` for one that is made from the content.
        given: How many of the first messages belong to the case and were not said by the model under test; the last
            message of the user that follows them opens the first turn.
        model: Key of the model, ``""`` where it is not named.
        tools: The tools that the model could call.
        steps: What the application did.
        error: What the model's host returned instead of an answer to the last turn.
        duration_s: How long all answers took together.
        cost_usd: What they cost.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        expected_answers: Acceptable answers to the last turn.
        expected_documents: Documents that should have been retrieved.
        condition: A condition on the answer to the last turn, in its source form.
        expected_tool_calls: Calls that are expected, ``None`` where that is not known.
        expected_outcome: The goal.
        scenario: What is known of the user and the model's part.
        categories: Free labels.
        case_metadata: Further facts of the case.
        metadata: Further facts of the answer.
        labels: What people said of it.
    """

    messages: Sequence[Message]
    key: str = ""
    given: int = 0
    model: str = ""
    tools: Sequence[Tool] | None = None
    steps: Sequence[TraceStep] | None = None
    error: str | None = None
    duration_s: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    expected_answers: Sequence[str] = ()
    expected_documents: Sequence[str] = ()
    condition: str | None = None
    expected_tool_calls: Sequence[ExpectedCall] | None = None
    expected_outcome: str | None = None
    scenario: Mapping[str, Json] | None = None
    categories: Sequence[str] = ()
    case_metadata: Mapping[str, Json] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)
    labels: Sequence[GivenLabel] = ()

    def recording(self) -> str:
        """Return as JSON what a model that is to hold the conversation anew needs, in the names of Leadline's columns.

        Equal recordings are equal texts.
        """
        fields = {
            "messages": self.messages,
            "given_messages": self.given or None,
            "tools": self.tools,
            "expected_answer": self.expected_answers or None,
            "expected_tool_calls": self.expected_tool_calls,
            "expected_outcome": self.expected_outcome,
            "scenario": self.scenario,
        }
        return _text({name: value for name, value in fields.items() if value is not None})


CONTENT: Final = (
    "messages", "history", "tool_calls", "tools", "steps", "expected_tool_calls", "expected_outcome", "scenario",
)  # fmt: skip
"""Columns that datasets of conversations have beside those of single answers; each but the outcome is JSON."""


class Numbers(NamedTuple):
    """Duration and cost of an answer; ``None`` for what is not known."""

    duration_s: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Part(NamedTuple):
    """A turn of a conversation, or the conversation as a whole, as it is staged.

    Attributes:
        turn: What is asked and answered in it; of a conversation the first question and the last answer.
        numbers: What it took.
        content: The columns of :data:`CONTENT`.
    """

    turn: Turn
    numbers: Numbers
    content: tuple[str | None, ...]

    @property
    def chunks(self) -> Chunks:
        """The retrieved chunks, as they are staged."""
        return [(chunk["content"], chunk.get("doc_uri")) for chunk in self.turn.retrieved_context]


def parts_of(conversation: Conversation) -> tuple[Part, list[Part]]:
    """Return a conversation as a whole, and its turns where it has several.

    One that has no turn is one without question and answer.
    """
    messages = conversation.messages
    turns = [turn for turn in turns_of(messages) if turn.first >= conversation.given] or [
        Turn(len(messages), len(messages), None, None, (), ())
    ]
    last = turns[-1]
    turns[-1] = last._replace(expected_answers=(*last.expected_answers, *conversation.expected_answers))
    chunks = {chunk["content"]: chunk for turn in turns for chunk in turn.retrieved_context}
    first = next((turn.question for turn in turns if turn.question is not None), None)
    # Who ends with thanks was answered before.
    said = next((turn.answer for turn in reversed(turns) if turn.answer is not None), None)
    whole = Turn(turns[0].first, last.end, first, said, tuple(chunks.values()), turns[-1].expected_answers)
    numbers = Numbers(
        conversation.duration_s, conversation.cost_usd, conversation.input_tokens, conversation.output_tokens
    )
    content = _content(
        conversation,
        whole,
        instructions=[message for message in messages[: whole.first] if message["role"] == "system"],
        steps=conversation.steps,
        calls=conversation.expected_tool_calls,
        outcome=conversation.expected_outcome,
    )
    several = enumerate(turns, start=1) if len(turns) > 1 else ()
    return Part(whole, numbers, content), [_turn_part(conversation, turn, number) for number, turn in several]


def _turn_part(conversation: Conversation, turn: Turn, number: int) -> Part:
    steps = [step for step in conversation.steps or () if step.get("turn") == number]
    calls = conversation.expected_tool_calls or ()
    told = any("turn" in call for call in calls)
    wanted = [call for call in calls if call.get("turn") == number] if told else None
    return Part(turn, _numbers(steps), _content(conversation, turn, steps=steps or None, calls=wanted))


def _content(
    conversation: Conversation,
    turn: Turn,
    *,
    instructions: Sequence[Message] = (),
    steps: Sequence[TraceStep] | None,
    calls: Sequence[ExpectedCall] | None,
    outcome: str | None = None,
) -> tuple[str | None, ...]:
    messages = conversation.messages[turn.first : turn.end]
    return (
        _text([*instructions, *messages]),
        _json(_history(conversation.messages, turn.first)),
        _text([call._asdict() for call in calls_of(messages)]),
        _json(conversation.tools),
        _json(steps),
        _json(calls),
        outcome,
        _json(conversation.scenario),
    )


def _numbers(steps: Sequence[TraceStep]) -> Numbers:
    """Return what a turn took by its steps: from the first to the end of the last, and the sums of its calls."""
    timed = [(step["start_ms"], step.get("duration_ms", 0.0)) for step in steps if "start_ms" in step]
    took = max(start + length for start, length in timed) - min(start for start, _ in timed) if timed else None
    asked = [step for step in steps if step["kind"] == "llm"]
    return Numbers(
        None if took is None else took / 1000,
        total(step.get("cost_usd") for step in asked),
        total(step.get("input_tokens") for step in asked),
        total(step.get("output_tokens") for step in asked),
    )


def total(values: Iterable[Any]) -> Any:
    """Return the sum of what is known, ``None`` where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _history(messages: Sequence[Message], first: int) -> list[Message] | None:
    """Return the latest messages before a turn, with long results of tools cut; ``None`` where there are none."""
    before = [message for message in messages[:first] if message["role"] != "system"][-HISTORY:]
    return [_shortened(message) for message in before] or None


def _shortened(message: Message) -> Message:
    text = message["content"]
    if message["role"] != "tool" or len(text) <= LONGEST_RESULT:
        return message
    return {**message, "content": text[:LONGEST_RESULT] + CUT.format(left=len(text) - LONGEST_RESULT)}


def _json(value: Any) -> str | None:
    return None if value is None else _text(value)


def _text(value: Any) -> str:
    """Return JSON with its members sorted: two exporters write the same arguments in two orders."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise ValueFault(f"this cannot be kept as JSON: {error}") from None
