"""Replies of a judge: one rating with its rationale, or a verdict on each of several items.

``plugins/databricks/databricks_table.py`` reads what a score's evidence keeps of it: under ``assessment`` the
``rating`` and the ``rationale``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from leadline.evaluators.data import ContextChunk, Evidence, Json, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge
from leadline.evaluators.judge_client.calls import JudgeUnparseable

AT_ONCE: Final = 20
"""Verdicts in one reply, at most: with a reason each, more would not fit into a judge's usual limit of 1,024 tokens."""


def _plain_word(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _text_or_nothing(value: object) -> object:
    return "" if value is None else value


_YesNo: TypeAlias = Annotated[Literal["yes", "no"], BeforeValidator(_plain_word)]
"""One of the two words, in any case."""

_YesNoIdk: TypeAlias = Annotated[Literal["yes", "no", "idk"], BeforeValidator(_plain_word)]
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
    verdict: _YesNo


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


AnyVerdict: TypeAlias = Verdict | VerdictOrIdk
Shape = TypeVar("Shape", Verdicts, VerdictsOrIdk)


async def one_each(judge: Judge, name: str, shape: type[Shape], items: Sequence[str], **texts: Any) -> Shape:
    """Ask for one verdict for each item; a reply with more or fewer is asked for again.

    More than :data:`AT_ONCE` items are judged in several calls.

    Args:
        name: The prompt, which numbers the items; they reach it as ``items``.
        shape: The shape of the reply.
        items: What is to be judged; without any, nothing is asked.
        texts: What else the prompt shows.
    """

    async def ask(part: Sequence[str]) -> Shape:
        def check(reply: Shape) -> None:
            if len(reply.verdicts) != len(part):
                raise JudgeUnparseable(f"The reply holds {len(reply.verdicts)} verdicts for {len(part)} items.")

        return await judge.ask(name, shape, check=check, items=part, **texts)

    parts = (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
    replies = await asyncio.gather(*map(ask, parts))
    return shape.model_construct(verdicts=tuple(verdict for reply in replies for verdict in reply.verdicts))


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
    rating: _YesNo


def rated(metric: str, assessment: Assessment) -> RowScore:
    """Return the score of a row that got one rating: 1 for yes and 0 for no.

    Args:
        metric: The metric's key.
        assessment: The rating with its rationale.
    """
    data: dict[str, Json] = {"assessment": {"rating": assessment.rating, "rationale": assessment.rationale}}
    return RowScore({metric: float(assessment.rating == "yes")}, Evidence(assessment.rationale, data=data))
