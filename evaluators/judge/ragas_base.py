"""Shared parts of the RAGAS evaluators: lists of verdicts, the best of several expected answers, and their evidence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leadline.evaluators.core.embedding_evaluator import SPANS, quote
from leadline.evaluators.data import Evidence, Json, Row, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge
from leadline.evaluators.judge.verdicts import Verdict, Verdicts, one_each

SOURCE: Final = "H2O Sonar evaluator reference; RAGAS (https://arxiv.org/abs/2309.15217)"


@dataclass(frozen=True, slots=True)
class Measured:
    """A value and what it rests on.

    Attributes:
        message: One sentence that says how it came about.
        data: The judge's verdicts and reasons.
        spans: The stretches of text that were judged.
    """

    value: float
    message: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    def as_score(self, metric: str) -> RowScore:
        """Return it as the score of a row."""
        return RowScore({metric: self.value}, Evidence(self.message, self.spans, self.data))


async def verdicts_on(judge: Judge, name: str, items: Sequence[str], **texts: Any) -> tuple[Verdict, ...]:
    """Ask for a verdict on each item, in as few calls as can carry them.

    Args:
        name: The prompt, which numbers the items.
        items: The texts to judge; without any, nothing is asked.
        **texts: Other texts that the prompt shows, by name.
    """
    return (await one_each(judge, name, Verdicts, items, **texts)).verdicts


def is_yes(verdict: Verdict) -> bool:
    """Return whether a verdict is yes."""
    return verdict.verdict == "yes"


def context_of(row: Row) -> str:
    """Return the retrieved chunks joined by line feeds, as RAGAS shows them to its judge."""
    return "\n".join(chunk.content for chunk in row.retrieved_context)


def expected_answers(row: Row) -> dict[int, str]:
    """Return the distinct expected answers that are not blank, by their number."""
    first: dict[str, int] = {}
    for number, text in enumerate(row.expected_answers):
        if text.strip():
            first.setdefault(text, number)
    return {number: text for text, number in first.items()}


async def best_of(expected: Mapping[int, str], measure: Callable[[int, str], Awaitable[Measured]]) -> Measured:
    """Measure against one expected answer after the other, at least one, and return the best.

    What is as good as can be by one of them is not compared with the others, which could change nothing.

    Args:
        expected: Expected answers by number.
        measure: Measures against one of them, given its number and text; values are at most 1.
    """
    best = Measured(-1.0)
    for number, text in expected.items():
        measured = await measure(number, text)
        if measured.value > best.value:
            which: dict[str, Json] = {"expected_answer": number} if len(expected) > 1 else {}
            best = replace(measured, data={**which, **measured.data})
        if best.value >= 1.0:
            break
    return best


def as_evidence(items: Sequence[str], verdicts: Sequence[Verdict]) -> list[Json]:
    """Return items with their verdicts and reasons; the first 200, quoted up to 500 characters.

    Args:
        items: The texts that were judged.
        verdicts: One verdict for each.
    """
    return [
        {"item": quote(item), "verdict": verdict.verdict, "reason": quote(verdict.reason)}
        for item, verdict in list(zip(items, verdicts, strict=True))[:SPANS]
    ]


def verbatim_spans(
    source: Source, text: str, items: Sequence[str], verdicts: Sequence[Verdict], index: int = 0
) -> tuple[Span, ...]:
    """Return a span for each item that stands word by word in a text, its final full stop aside.

    Args:
        source: The field that the text belongs to.
        text: The text to look in.
        items: The texts that were judged; only the first 200 are looked for.
        verdicts: One verdict for each.
        index: Number of the chunk or expected answer, from 0.
    """
    out = []
    for item, verdict in list(zip(items, verdicts, strict=True))[:SPANS]:
        words = item.strip().rstrip(".")
        start = text.find(words) if words else -1
        if start >= 0:
            out.append(Span(source, start, start + len(words), index, float(is_yes(verdict))))
    return tuple(out)
