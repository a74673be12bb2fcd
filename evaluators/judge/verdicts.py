"""Replies of a judge: one rating with its rationale, or a verdict on each of several items, and what is made of them.

The items may be the statements, claims or opinions that it first lists of a text. What the RAGAS evaluators share comes
last: the best of several expected answers, and their evidence.

``plugins/databricks/databricks_table.py`` reads what a score's evidence keeps of it: under ``assessment`` the
``rating`` and the ``rationale``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict

from leadline.evaluators.core.model_evaluator import SPANS, quote
from leadline.evaluators.data import ContextChunk, Evidence, Json, Row, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge_client.calls import JudgeUnparseable

AT_ONCE: Final = 20
"""Verdicts in one reply, at most: with a reason each, more would not fit into a judge's usual limit of 1,024 tokens."""


def plain_word(value: object) -> object:
    """Return a word without the capitals and the space around it that judges give it; what is no text, as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def _text_or_nothing(value: object) -> object:
    return "" if value is None else value


YesNo: TypeAlias = Annotated[Literal["yes", "no"], BeforeValidator(plain_word)]
"""One of the two words, in any case."""

_YesNoIdk: TypeAlias = Annotated[Literal["yes", "no", "idk"], BeforeValidator(plain_word)]
"""One of three words; ``idk`` is "I do not know"."""

Reason: TypeAlias = Annotated[str, BeforeValidator(_text_or_nothing)]
"""Why; a judge that gives no reason is understood all the same."""


class JudgeReply(BaseModel):
    """The base of judges' replies in JSON; ``strict_schema`` makes the schema that providers enforce.

    Reading is more lenient than that schema, for judges that are not forced to follow it: other keys are ignored, and
    keys with a default may be missing.
    """

    model_config = ConfigDict(frozen=True)


class Verdict(JudgeReply):
    """Yes or no about one item. The reason comes first, so that the judge thinks before it decides."""

    reason: Reason = ""
    verdict: YesNo


class VerdictOrIdk(JudgeReply):
    """Yes, no, or "I do not know" about one item."""

    reason: Reason = ""
    verdict: _YesNoIdk


class Verdicts(JudgeReply):
    """One verdict for each item, in their order."""

    verdicts: tuple[Verdict, ...]


class VerdictsOrIdk(JudgeReply):
    """One verdict for each item, in their order; the judge may not know."""

    verdicts: tuple[VerdictOrIdk, ...]


class FoundItem(JudgeReply):
    """An item that the judge found itself, with its verdict; the reason comes before it."""

    item: str
    reason: Reason = ""
    verdict: YesNo


class FoundItems(JudgeReply):
    """Items that the judge found itself, each with its verdict."""

    items: tuple[FoundItem, ...]


AnyVerdict: TypeAlias = Verdict | VerdictOrIdk | FoundItem


async def one_each(
    judge: Judge, name: str, items: Sequence[str], /, *, shape: type[Verdicts | VerdictsOrIdk] = Verdicts, **texts: Any
) -> tuple[AnyVerdict, ...]:
    """Ask for one verdict for each item; a reply with more or fewer is asked for again.

    More than :data:`AT_ONCE` items are judged in several calls.

    Args:
        name: The prompt, which numbers the items; they reach it as ``items``.
        items: What is to be judged; without any, nothing is asked.
        shape: The shape of the reply.
        texts: What else the prompt shows.
    """

    async def ask(part: Sequence[str]) -> Verdicts | VerdictsOrIdk:
        def check(reply: Verdicts | VerdictsOrIdk) -> None:
            if len(reply.verdicts) != len(part):
                raise JudgeUnparseable(f"The reply holds {len(reply.verdicts)} verdicts for {len(part)} items.")

        return await judge.ask(name, shape, check=check, items=part, **texts)

    parts = (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
    replies = await asyncio.gather(*map(ask, parts))
    return tuple(verdict for reply in replies for verdict in reply.verdicts)


def count_of(verdicts: Iterable[AnyVerdict], word: str = "yes") -> int:
    """Return how many verdicts are a given word.

    Args:
        word: The word to count.
    """
    return sum(verdict.verdict == word for verdict in verdicts)


def as_json(items: Sequence[str], verdicts: Sequence[AnyVerdict]) -> Json:
    """Return items with their verdicts and reasons, for a score's evidence.

    Args:
        items: The texts that were judged.
        verdicts: One verdict for each.
    """
    return [
        {"item": item, "verdict": verdict.verdict, "reason": verdict.reason}
        for item, verdict in zip(items, verdicts, strict=True)
    ]


def chunk_spans(chunks: Sequence[ContextChunk], verdicts: Sequence[bool], yes: str, no: str) -> tuple[Span, ...]:
    """Return a span over the full text of each chunk that says how it was judged.

    Args:
        chunks: The retrieved chunks.
        verdicts: What was judged of each.
        yes: What a chunk is noted as where the verdict is yes.
        no: What it is noted as otherwise.
    """
    return tuple(
        Span(Source.RETRIEVED_CONTEXT, 0, len(chunk.content), index, float(verdict), yes if verdict else no)
        for index, (chunk, verdict) in enumerate(zip(chunks, verdicts, strict=True))
    )


class Assessment(JudgeReply):
    """A judge's rating. The rationale comes first, so that the judge thinks before it decides."""

    rationale: Reason = ""
    rating: YesNo


def rated(metric: str, assessment: Assessment) -> RowScore:
    """Return the score of a row that got one rating: 1 for yes and 0 for no.

    Args:
        metric: The metric's key.
        assessment: The rating with its rationale.
    """
    data: dict[str, Json] = {"assessment": {"rating": assessment.rating, "rationale": assessment.rationale}}
    return RowScore({metric: float(assessment.rating == "yes")}, Evidence(assessment.rationale, data=data))


STATEMENTS: Final = prompt_beside(__file__, "statements.jinja")
"""The prompt that takes a text apart; equal texts are taken apart once, whichever evaluators need them."""

VALOR_SOURCE: Final = "Striveworks Valor, metrics reference, text generation metrics (LLM-guided)"


class Statements(JudgeReply):
    """The statements of a text."""

    statements: tuple[str, ...]


class Claims(JudgeReply):
    """The claims of a text."""

    claims: tuple[str, ...]


class Opinions(JudgeReply):
    """The opinions of a text's author."""

    opinions: tuple[str, ...]


class Parts(NamedTuple):
    """A way to take a text apart: the prompt that lists the parts of ``text``, and the reply whose field holds them."""

    prompt: Path
    reply: type[JudgeReply]


PARTS: Final[Mapping[str, Parts]] = MappingProxyType(
    {
        "statements": Parts(STATEMENTS, Statements),
        "claims": Parts(prompt_beside(__file__, "claims.jinja"), Claims),
        "opinions": Parts(prompt_beside(__file__, "opinions.jinja"), Opinions),
    }
)


async def parts_of(judge: Judge, name: str, text: str) -> tuple[str, ...]:
    """Return the parts of a text that are not blank; a blank text has none, and nothing is asked.

    Args:
        judge: The judge; its evaluator has a prompt of this name.
        name: One of :data:`PARTS`.
        text: The text to take apart.
    """
    if not text.strip():
        return ()
    reply = await judge.ask(name, PARTS[name].reply, text=text)
    return tuple(item for item in getattr(reply, name) if item.strip())


RAGAS_SOURCE: Final = "H2O Sonar evaluator reference; RAGAS (https://arxiv.org/abs/2309.15217)"


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


def as_evidence(items: Sequence[str], verdicts: Sequence[AnyVerdict]) -> list[Json]:
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
    source: Source, text: str, items: Sequence[str], verdicts: Sequence[AnyVerdict], index: int = 0
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
            out.append(Span(source, start, start + len(words), index, float(verdict.verdict == "yes")))
    return tuple(out)
