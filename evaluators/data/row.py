"""The values that flow between the rooms: rows in, row scores out.

Everything here is frozen. A row is identified by ``(case, model)``, never by its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from leadline.evaluators.data.annotations import Annotations
from leadline.evaluators.data.messages import ExpectedCall, Json, MadeCall, Messages, Tool, TraceStep


class RowField(StrEnum):
    """A field of a row that an evaluator can read. A score's key covers exactly the fields that it reads."""

    QUESTION = "question"
    EXPECTED_ANSWER = "expected_answer"
    RETRIEVED_CONTEXT = "retrieved_context"
    ACTUAL_ANSWER = "actual_answer"
    CONDITION = "condition"
    CATEGORIES = "categories"
    EXPECTED_DOCUMENTS = "expected_documents"
    RETRIEVED_DOCUMENTS = "retrieved_documents"
    METADATA = "metadata"
    EXPECTED_ANNOTATIONS = "expected_annotations"
    PREDICTED_ANNOTATIONS = "predicted_annotations"
    DURATION_S = "duration_s"
    COST_USD = "cost_usd"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    ORIGINAL_ANSWER = "original_answer"
    RIVAL_ANSWERS = "rival_answers"
    MESSAGES = "messages"
    HISTORY = "history"
    TOOL_CALLS = "tool_calls"
    TOOLS = "tools"
    STEPS = "steps"
    EXPECTED_TOOL_CALLS = "expected_tool_calls"
    EXPECTED_OUTCOME = "expected_outcome"
    SCENARIO = "scenario"

    @property
    def attribute(self) -> str:
        """Name of the attribute of a row that holds the field."""
        return _ATTRIBUTES.get(self.value, self.value)


_ATTRIBUTES: Final = {"expected_answer": "expected_answers", "retrieved_documents": "retrieved_context"}
"""Attributes of a row that are not called as their field."""


OUTPUTS: Final = frozenset({RowField.ACTUAL_ANSWER, RowField.PREDICTED_ANNOTATIONS, RowField.DURATION_S})
"""What a model made, and how long that took: absent where its host returned an error instead, however soon."""


GOALS: Final = frozenset({RowField.EXPECTED_TOOL_CALLS, RowField.EXPECTED_OUTCOME, RowField.SCENARIO})
"""Fields that an evaluator of conversations reads to say what one came to: nothing, where its host broke it off."""


class Reason(StrEnum):
    """The reason that a row is unscored: always a failure of the instrument or the host, never a bad score.

    ``UNSCORABLE`` is the one that stays: the row itself cannot be measured, however often it is tried.
    """

    HOST_ERROR = "host_error"
    MODEL_UNAVAILABLE = "model_unavailable"
    TIMEOUT = "timeout"
    EVALUATOR_ERROR = "evaluator_error"
    UNSCORABLE = "unscorable"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    JUDGE_REFUSED = "judge_refused"
    JUDGE_UNPARSEABLE = "judge_unparseable"
    JUDGE_TRUNCATED = "judge_truncated"
    BUDGET = "budget"
    OUT_OF_MEMORY = "out_of_memory"
    WORKER_LOST = "worker_lost"
    QUARANTINED = "quarantined"


class Severity(StrEnum):
    """The severity of a problem, worst first."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ContextChunk(NamedTuple):
    """One retrieved piece of text, in rank order, with the document that it came from."""

    content: str
    doc_uri: str | None = None


class RivalAnswer(NamedTuple):
    """The answer of another model to the same case."""

    model: str
    answer: str


@dataclass(frozen=True)
class Row:
    """The answer of one model to one case: the unit that evaluators score.

    Only the fields that an evaluator declares as read are filled in; the others keep their defaults.

    Attributes:
        case: Key of the case.
        model: Key of the model.
        question: The prompt or question, ``None`` when absent.
        expected_answers: Acceptable answers, any of which is right; empty when there is no ground truth.
        retrieved_context: Chunks in rank order; empty when nothing was retrieved or the model is no RAG system.
        actual_answer: The model's answer, ``None`` when there is none (``""`` is an answer).
        condition: A text-matching condition in its source form, ``None`` when absent.
        categories: Free labels of the case.
        expected_documents: Documents that should have been retrieved.
        metadata: Everything else that the dataset has about the row.
        expected_annotations: Ground truth of a data item, see :mod:`.annotations`; ``None`` when absent.
        predicted_annotations: What the model found in the item, ``None`` when there is nothing of it (``()`` or ``[]``
            says that it found nothing).
        duration_s: How long the answer took, in seconds; ``None`` when it was not recorded, as with the next three.
        cost_usd: What the answer cost, in US dollars.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        original_answer: Where the case is a copy of another, perturbed or asked again, the model's answer to that one.
        rival_answers: The other models' answers to the case, by their keys; those that gave none are not among them.
        messages: The conversation, or in a turn that turn's own messages; empty where the row has none.
        history: What was said before a turn, as far as its window reaches, with long texts of tools cut.
        tool_calls: The calls in ``messages``: ``[]`` if there are none, ``None`` where nobody recorded any.
        tools: The tools that the model could call, ``None`` where that is not known.
        steps: What the application did, as it recorded it; ``None`` where it recorded nothing.
        expected_tool_calls: The calls that the case expects: ``[]`` if none, ``None`` where that is not known.
        expected_outcome: The goal of the conversation, ``None`` when absent.
        scenario: What the case says of the user and the model's part in it: ``scenario``, ``user_description``,
            ``chatbot_role``, ``topics``, ``facts``, ``expected_state``, ``policy``, …; ``None`` when absent.
    """

    case: str
    model: str
    question: str | None = None
    expected_answers: tuple[str, ...] = ()
    retrieved_context: tuple[ContextChunk, ...] = ()
    actual_answer: str | None = None
    condition: str | None = None
    categories: tuple[str, ...] = ()
    expected_documents: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)
    expected_annotations: Annotations | None = None
    predicted_annotations: Annotations | None = None
    duration_s: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    original_answer: str | None = None
    rival_answers: tuple[RivalAnswer, ...] = ()
    messages: Messages = ()
    history: Messages = ()
    tool_calls: Sequence[MadeCall] | None = None
    tools: Sequence[Tool] | None = None
    steps: Sequence[TraceStep] | None = None
    expected_tool_calls: Sequence[ExpectedCall] | None = None
    expected_outcome: str | None = None
    scenario: Mapping[str, Json] | None = None

    @classmethod
    def with_fields(cls, given: Mapping[str, Any]) -> Row:
        """Return a row with some attributes, as the constructor does, which takes long to set the many others.

        Args:
            given: The attributes, those of its identity included.
        """
        row = object.__new__(cls)
        vars(row).update({"metadata": {}, **given})  # the other defaults are the class's
        return row


class Source(StrEnum):
    """The text of a row that a span points into; that of a tool's call is the name of the tool."""

    ACTUAL_ANSWER = "actual_answer"
    EXPECTED_ANSWER = "expected_answer"
    RETRIEVED_CONTEXT = "retrieved_context"
    QUESTION = "question"
    MESSAGE = "message"
    TOOL_CALL = "tool_call"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a row's text that a score rests on, so that a report can point at it.

    Attributes:
        source: Which text.
        start: First character, in code points.
        end: One past the last character.
        index: Which chunk, expected answer, message or call, counted from 0.
        value: The score of this stretch alone, if it has one.
        note: What was found there (a rule's name, for example).
    """

    source: Source
    start: int
    end: int
    index: int = 0
    value: float | None = None
    note: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the span as JSON without its defaults."""
        out: dict[str, Json] = {"source": self.source.value, "start": self.start, "end": self.end}
        if self.index:
            out["index"] = self.index
        if self.value is not None:
            out["value"] = self.value
        if self.note:
            out["note"] = self.note
        return out


@dataclass(frozen=True, slots=True)
class Flag:
    """A problem of one row, reported to the reader besides its score."""

    type: str
    severity: Severity
    message: str

    def to_json(self) -> dict[str, Json]:
        """Return the flag as JSON."""
        return {"type": self.type, "severity": self.severity.value, "message": self.message}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for a row's score, which a person can follow back to the text.

    Attributes:
        message: One sentence for a reader, ``""`` when the score speaks for itself.
        spans: The stretches of text that decided.
        data: Anything else, as JSON (a judge's rationale, matched rules, decoded text).
    """

    message: str = ""
    spans: tuple[Span, ...] = ()
    data: Mapping[str, Json] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.message or self.spans or self.data)

    def to_json(self) -> dict[str, Json]:
        """Return the evidence as JSON without its empty parts."""
        out: dict[str, Json] = {}
        if self.message:
            out["message"] = self.message
        if self.spans:
            out["spans"] = [span.to_json() for span in self.spans]
        if self.data:
            out["data"] = dict(self.data)
        return out


@dataclass(frozen=True, slots=True)
class Unscored:
    """A metric that could not be measured, and why. Never a zero."""

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A metric that makes no sense for this row, although its inputs are there, and why."""

    message: str = ""


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class RowScore:
    """The result of an evaluator for one row.

    Attributes:
        values: One finite number (or ±inf where the metric's range allows it), :class:`Unscored` or
            :class:`NotApplicable`, for every per-row metric of the evaluator.
        evidence: What the values rest on.
        flags: Problems of this row that are not a score.
        payload: What a dataset-level aggregation needs of this row (see ``Evaluator.aggregate``), as JSON.
    """

    values: Mapping[str, float | Unscored | NotApplicable]
    evidence: Evidence = NO_EVIDENCE
    flags: tuple[Flag, ...] = ()
    payload: Json = None

    @classmethod
    def unscored(cls, metrics: tuple[str, ...], reason: Reason, message: str = "") -> RowScore:
        """Return a row none of whose metrics could be measured.

        Args:
            metrics: Keys of the per-row metrics.
            reason: The kind of failure.
            message: What happened, in one line.
        """
        return cls({metric: Unscored(reason, message) for metric in metrics})

    @classmethod
    def not_applicable(cls, metrics: tuple[str, ...], message: str = "") -> RowScore:
        """Return a row for which the evaluator makes no sense, although it has all inputs.

        Args:
            metrics: Keys of the per-row metrics.
            message: The reason, in one line.
        """
        return cls({metric: NotApplicable(message) for metric in metrics})

    @property
    def complete(self) -> bool:
        """True when scoring the row again would give the same, so that it is never needed."""
        return all(
            not isinstance(value, Unscored) or value.reason is Reason.UNSCORABLE for value in self.values.values()
        )


def clip(value: float, low: float, high: float) -> float:
    """Bring a value that left its range by rounding, or by a formula wider than its range, back into it.

    Args:
        value: Any number.
        low: Least value allowed.
        high: Greatest value allowed.
    """
    return low if value < low else high if value > high else float(value)
