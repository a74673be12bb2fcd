"""A failing check in words: the value and its limit, the stretches of text that it rests on, and the texts themselves.

Answers and contexts are others' texts: what could drive a terminal is spelt out, and long ones are cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.evaluators.data import Messages, calls_of
from leadline.evaluators.ground import count, number, one_line, visible
from leadline.evaluators.judge.transcript import call_text

MOST_SPANS: Final = 5
MOST_CHUNKS: Final = 3
MOST_CALLS: Final = 20
LONGEST_TEXT: Final = 1_000
LONGEST_SPAN: Final = 160
_LABEL: Final = 10


@dataclass(frozen=True, slots=True)
class AnswerTexts:
    """The texts of an answer that a reader needs to follow a failing check.

    Attributes:
        expected: Acceptable answers.
        context: Retrieved texts in rank order.
        said: Messages of a conversation.
    """

    answer: str | None
    question: str | None = None
    expected: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    condition: str | None = None
    said: Messages = ()

    def of(self, source: str, index: int) -> str:
        """Return the text that a span points into, ``""`` if it is not here.

        Args:
            source: A :class:`~leadline.evaluators.data.row.Source`.
            index: Number of the chunk, expected answer, message or call.
        """
        lists = {
            "expected_answer": self.expected,
            "retrieved_context": self.context,
            "message": [message["content"] for message in self.said],
            "tool_call": [call.name for call in calls_of(self.said)],
        }
        if source in lists:
            return lists[source][index] if 0 <= index < len(lists[source]) else ""
        return (self.question if source == "question" else self.answer) or ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A metric of an answer that misses its limit.

    Attributes:
        limit: The value that separates good from bad; it is good itself.
        higher_is_better: Whether good values are those from the limit on, or those up to it.
        role: ``must`` or ``should`` by a policy, or ``""``.
        evidence: What the value rests on, as :meth:`.Evidence.to_json` gives it.
    """

    evaluator: str
    metric: str
    value: float
    limit: float
    higher_is_better: bool
    role: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The metric among all: ``evaluator.metric``, or the id alone where both have one name."""
        return self.evaluator if self.metric == self.evaluator else f"{self.evaluator}.{self.metric}"

    @property
    def headline(self) -> str:
        """The metric, its value and its limit in one line."""
        side = "at least" if self.higher_is_better else "at most"
        role = f"  [{self.role}]" if self.role else ""
        return f"{self.key} is {number(self.value)}, {side} {number(self.limit)} is good{role}"


def failure_text(failures: Sequence[Failure], texts: AnswerTexts, more: Iterable[tuple[str, str]] = ()) -> str:
    """Return what is wrong with an answer: every failing metric with its evidence, then the texts.

    Args:
        failures: The failing metrics, the one to be read first at the front.
        more: Further lines, each a label and a text.
    """
    lines: list[str] = []
    for failure in failures:
        lines += [failure.headline, *(f"    {line}" for line in evidence_lines(failure.evidence, texts))]
    pointed = [span for failure in failures for span in failure.evidence.get("spans", ())]
    labelled = [*_texts(texts, pointed), *more]
    return "\n".join([*lines, *(part for label, text in labelled for part in _labelled(label, text))])


def evidence_lines(evidence: Mapping[str, Any], texts: AnswerTexts) -> Iterator[str]:
    """Yield evidence line by line: its sentence, then the stretches of text.

    Args:
        evidence: As :meth:`.Evidence.to_json` gives it.
    """
    message = str(evidence.get("message") or "")
    spans = list(evidence.get("spans") or ())
    if message:
        yield _shortened(one_line(message), LONGEST_TEXT)
    for span in spans[:MOST_SPANS]:
        yield _span_line(span, texts)
    if len(spans) > MOST_SPANS:
        yield f"and {count(len(spans) - MOST_SPANS, 'more place', 'more places')}"
    if not message and not spans and evidence.get("data"):
        yield _shortened(one_line(json.dumps(evidence["data"], ensure_ascii=False)), LONGEST_TEXT)


def _span_line(span: Mapping[str, Any], texts: AnswerTexts) -> str:
    source, index = str(span["source"]), int(span.get("index", 0))
    start, end = int(span["start"]), int(span["end"])
    words = _shortened(one_line(texts.of(source, index)[start:end]), LONGEST_SPAN)
    place = {"actual_answer": "answer", "question": "question", "expected_answer": f"expected answer {index + 1}"}
    place |= {"message": f"message {index + 1}", "tool_call": f"call {index + 1}"}
    said = [one_line(str(span["note"]))] if span.get("note") else []
    said += [number(float(span["value"]))] if span.get("value") is not None else []
    tail = f": {', '.join(said)}" if said else ""
    return f'{place.get(source, f"context {index + 1}")}[{start}:{end}] "{words}"{tail}'


def _texts(texts: AnswerTexts, spans: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the texts with their labels; of many retrieved ones those that evidence points into, else the first."""
    if texts.question is not None:
        yield "question", texts.question
    for expected in texts.expected[:MOST_CHUNKS]:
        yield "expected", expected
    if texts.condition is not None:
        yield "condition", texts.condition
    for call in calls_of(texts.said)[:MOST_CALLS]:
        outcome = "no result" if call.result is None else call.result if call.error is None else f"failed: {call.error}"
        yield "call", f"{call_text(call.name, call.arguments)} → {_shortened(outcome, LONGEST_SPAN)}"
    yield "answer", texts.answer if texts.answer is not None else "(there is none)"
    pointed = [int(span.get("index", 0)) for span in spans if span["source"] == "retrieved_context"]
    shown = sorted(dict.fromkeys([*pointed, *range(len(texts.context))]))[: max(MOST_CHUNKS, len(set(pointed)))]
    for index in shown[:MOST_SPANS]:
        if index < len(texts.context):
            yield f"context {index + 1}", texts.context[index]
    if len(texts.context) > len(shown):
        yield "", f"and {count(len(texts.context) - len(shown), 'more context')}"


def _labelled(label: str, text: str) -> list[str]:
    first, *others = visible(_shortened(text, LONGEST_TEXT)).splitlines() or ['""']
    return [f"{label:<{_LABEL}} {first}", *(f"{'':<{_LABEL}} {line}" for line in others)]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
