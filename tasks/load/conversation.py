"""A conversation as a format hands it to loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.evaluators.data import ExpectedCall, Json, Message, Tool, TraceStep
from leadline.tasks.load.label import GivenLabel


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
    expected_tool_calls: Sequence[ExpectedCall] | None = None
    expected_outcome: str | None = None
    scenario: Mapping[str, Json] | None = None
    categories: Sequence[str] = ()
    case_metadata: Mapping[str, Json] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)
    labels: Sequence[GivenLabel] = ()
