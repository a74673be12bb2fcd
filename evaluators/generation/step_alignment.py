"""Step alignment: are the steps of the answer those of the retrieved context, complete and in order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from pydantic import Field

from leadline.evaluators.core import INF, Effect, Metric, Spec, register
from leadline.evaluators.core.model_evaluator import SPANS, EmbeddingEvaluator, EmbeddingParams, Vectors, quote
from leadline.evaluators.data import (
    Evidence,
    Flag,
    Json,
    NotApplicable,
    Reason,
    Row,
    RowField,
    RowScore,
    Severity,
    Source,
    Span,
)
from leadline.evaluators.generation._procedures import (
    MOST_STEPS,
    Aligned,
    Edit,
    Procedure,
    Step,
    align,
    joined,
    procedures,
)
from leadline.evaluators.ground import ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.models.catalogue import ALL_MINILM_L6_V2

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.core import EvalContext

MOST_PAIRS: Final = 4_000_000
"""Pairs of steps that are compared for one row, at most."""

EDITS: Final = ("edits", "insertions", "deletions", "mismatches")


class Found(JudgeReply):
    """The procedures that a judge finds in a text."""

    procedures: tuple[tuple[str, ...], ...]


class StepAlignmentParams(EmbeddingParams):
    """Parameters of :class:`StepAlignment`."""

    extraction: Literal["regex", "judge", "both"] = Field(
        "regex",
        description="How steps are found: by regular expressions, by a judge, or by both, which makes all "
        "procedures that either finds candidates.",
    )
    similarity_threshold: float = Field(
        0.7, ge=-1, le=1, description="Cosine similarity from which on two steps are the same."
    )
    sentence_level_metrics: bool = Field(
        True, description="Show what became of each step of the answer, beside the counts."
    )
    h2ogpte_connection_config_key: str = Field(
        "",
        description="Key of the judge that finds steps; the run's default judge without one.",
        json_schema_extra=Effect.JUDGE.extra,
    )
    h2ogpte_llm_model_name: str = Field(
        "",
        description="Key of the judge, where h2ogpte_connection_config_key names none.",
        json_schema_extra=Effect.JUDGE.extra,
    )


@dataclass(frozen=True)
class FoundProcedures:
    """The procedures found in a row.

    Attributes:
        procedures: All procedures of the answer.
        context: All procedures of the retrieved context.
        in_answer: How many steps the answer has.
        in_context: How many steps the retrieved context has.
    """

    procedures: tuple[Procedure, ...]
    context: tuple[Procedure, ...]
    in_answer: int
    in_context: int

    @property
    def answer(self) -> Procedure | None:
        """The answer's longest procedure, the first of equals; ``None`` when it has none."""
        return max(self.procedures, key=lambda procedure: len(procedure.steps), default=None)


def _counts(key: str, name: str, description: str, *, better: bool = False, primary: bool = False) -> Metric:
    return Metric(key, name, better, range=(0.0, INF), primary=primary, description=description)


@register
class StepAlignment(EmbeddingEvaluator, JudgeEvaluator):
    """Compares the steps of the answer with those of the retrieved context, which are taken for right.

    **Method.** Procedures are found in the answer and in the chunks by regular expressions, by a judge, or by both. The
    answer's longest procedure is compared with the context's procedure that is most similar to it, by the embeddings of
    their texts. Two steps are the same when the cosine of their embeddings is at least 0.7 (``similarity_threshold``).
    The alignment with the fewest edits is found by dynamic programming; among several such, the one with the most
    similar pairs.

    * insertions: steps of the context that the answer lacks, so that they would have to be inserted;
    * deletions: steps of the answer that the context does not have;
    * mismatches: steps of the answer that stand where the context has another step;
    * ``edits = insertions + deletions + mismatches``;
    * retrieved context steps, actual answer steps: all steps that were found, those of procedures that are not compared
      included. They say how far the edits can be relied on: many steps beside those compared, or none, are a warning.
      Procedures that repeat word by word, as in overlapping chunks, count once; where a judge and regular expressions
      look for steps, the larger number counts.

    **Edge cases.**

    * A procedure that is cut between two chunks is put together by its numbers.
    * No steps in the answer: all steps of the context that is closest to all of the answer are insertions. No steps in
      the context: all steps of the answer are deletions, and a problem is reported, since the counts say little then.
      No steps in either: the row is about no procedure, and the four counts of edits are not applicable.
    * Embeddings hardly tell "open the valve" from "close the valve": such a swap can pass for a match.
    * More than 4,000,000 pairs of steps are not compared: the row is unscored, and a problem is reported.

    **Source.** H2O Sonar evaluator reference, "Step Alignment and Completeness Evaluator", after A. Sudjianto and
    A. Sudjianto, "Evaluating Procedure Generation in Retrieval-Augmented Generation (RAG) Systems". H2O Sonar's code
    counts no mismatches among the edits, maximizes a sum of similarities with gaps of -0.5, and counts the steps of
    the two procedures that it compares; here edits are what the reference says they are, those required to obtain the
    correct sequence, and so are the steps: those detected in the context and in the answer.
    """

    spec = Spec(
        id="step_alignment",
        name="Step Alignment and Completeness Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            _counts(
                "edits",
                "Edits",
                "Insertions, deletions and substitutions that turn the answer's steps into those of the context.",
                primary=True,
            ),
            _counts("insertions", "Insertions", "Steps of the context that are missing in the answer."),
            _counts("deletions", "Deletions", "Steps of the answer that are not in the context."),
            _counts("mismatches", "Mismatches", "Steps of the answer in whose place the context has another step."),
            _counts(
                "retrieved_context_steps",
                "Retrieved context steps",
                "Steps found in the retrieved context, in all its procedures; without any the edits say little.",
                better=True,
            ),
            _counts(
                "actual_answer_steps",
                "Actual answer steps",
                "Steps found in the answer, in all its procedures.",
                better=True,
            ),
        ),
        version="2",
        gpu=True,
        llm=False,
        keywords=("procedures", "steps", "embeddings", "alignment"),
        source="H2O Sonar evaluator reference: Step Alignment and Completeness Evaluator",
    )
    parameters = StepAlignmentParams
    params: StepAlignmentParams
    default_embedder = ALL_MINILM_L6_V2
    prompts = {"steps": prompt_beside(__file__, "step_alignment.jinja")}  # noqa: RUF012

    def __init__(self, params: StepAlignmentParams | None = None) -> None:
        super().__init__(params)
        if self.asks:  # paid calls belong into the lane that has the ledger and the budget
            vars(self)["spec"] = replace(type(self).spec, lane="judge", judge="llm")

    @property
    def asks(self) -> bool:
        """True where a judge is asked for the steps."""
        return self.params.extraction != "regex"

    def judge_key(self) -> str:
        """Return the key of the judge, ``""`` for the run's default."""
        return self.params.h2ogpte_connection_config_key or self.params.h2ogpte_llm_model_name

    def calls_per_row(self) -> float:
        """One for the answer and one for the context."""
        return 2.0

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: the judge and its prompt only where it is asked."""
        out = super().identity(ctx)
        return out if self.asks else {name: out[name] for name in out if name not in ("prompts", "parser", "judge")}

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the steps, where no judge has to be asked for them first."""
        return {} if self.asks else super().texts_to_embed(rows, ctx)

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows: in the judges' event loop where a judge is asked."""
        return JudgeEvaluator.score(self, rows, ctx) if self.asks else super().score(rows, ctx)

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return all steps, and what procedures are chosen by."""
        return _texts(row, _by_expressions(row))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row by the steps that regular expressions find."""
        return self._compare(row, _by_expressions(row), vectors)

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Score one row by the steps that a judge finds; without an embedder the judge is not asked."""
        ref = self.embedder(ctx)
        try:
            await ctx.embed_soon(ref, [row.actual_answer or ""])
            steps = await self._by_judge(row, judge)
            texts = list(dict.fromkeys(_texts(row, steps)))
            return self._compare(row, steps, Vectors(texts, await ctx.embed_soon(ref, texts)))
        except ModelUnavailable as error:
            return RowScore.unscored(self.row_metrics, Reason.MODEL_UNAVAILABLE, str(error))
        except OutOfMemory as error:
            return RowScore.unscored(self.row_metrics, Reason.OUT_OF_MEMORY, str(error))

    async def _by_judge(self, row: Row, judge: Judge) -> FoundProcedures:
        answer = row.actual_answer or ""
        chunks = [chunk.content for chunk in row.retrieved_context if chunk.content.strip()]
        ours = await self._ask(judge, [answer])
        theirs = await self._ask(judge, chunks)
        steps = _steps(ours, theirs)
        return _together(_by_expressions(row), steps) if self.params.extraction == "both" else steps

    async def _ask(self, judge: Judge, texts: Sequence[str]) -> list[Procedure]:
        if not any(text.strip() for text in texts):
            return []
        reply = await judge.ask("steps", Found, texts=list(texts))
        lists = [[step.strip() for step in steps if step.strip()][:MOST_STEPS] for steps in reply.procedures]
        return [Procedure(tuple(_located(step, texts) for step in steps)) for steps in lists if steps]

    def _compare(self, row: Row, steps: FoundProcedures, vectors: Vectors) -> RowScore:
        answer = steps.answer.steps if steps.answer else ()
        chosen = _closest(row, steps, vectors)
        context = chosen.steps if chosen else ()
        counts: dict[str, float] = {
            "retrieved_context_steps": steps.in_context,
            "actual_answer_steps": steps.in_answer,
        }
        if not answer and not context:
            message = "No steps were found in the answer or in the retrieved context."
            return RowScore({**dict.fromkeys(EDITS, NotApplicable(message)), **counts}, Evidence(message))
        if len(answer) * len(context) > MOST_PAIRS:
            message = f"{len(context)} by {len(answer)} steps are more pairs than the {MOST_PAIRS} that are compared."
            unscored = RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
            return replace(unscored, flags=(Flag("evaluation", Severity.MEDIUM, message),))
        similarity = _similarity(context, answer, vectors)
        aligned = align(similarity, self.params.similarity_threshold)
        found = Counter(place.edit for place in aligned)
        kinds = (found[Edit.INSERTION], found[Edit.DELETION], found[Edit.MISMATCH])
        values = dict(zip(EDITS, map(float, (sum(kinds), *kinds)), strict=True)) | counts
        message = (
            f"{sum(kinds)} edits ({kinds[0]} insertions, {kinds[1]} deletions, {kinds[2]} mismatches) turn the "
            f"answer's {len(answer)} steps into the context's {len(context)}."
        )
        data: dict[str, Json] = {
            "context_procedures": len(steps.context),
            "other_procedures_of_the_answer": max(0, len(steps.procedures) - 1),
            "threshold": self.params.similarity_threshold,
        }
        spans: tuple[Span, ...] = ()
        if self.params.sentence_level_metrics:
            data["alignment"] = [_shown(place, context, answer, similarity) for place in aligned[:SPANS]]
            spans = tuple(_spans(aligned, answer, similarity))[:SPANS]
        return RowScore(values, Evidence(message, spans, data), _doubts(answer, context))


def _by_expressions(row: Row) -> FoundProcedures:
    return _steps(
        procedures(row.actual_answer or ""), joined([procedures(chunk.content) for chunk in row.retrieved_context])
    )


def _steps(answer: Sequence[Procedure], context: Sequence[Procedure]) -> FoundProcedures:
    return FoundProcedures(tuple(answer), tuple(context), _number(answer), _number(context))


def _number(found: Sequence[Procedure]) -> int:
    """Return how many steps the procedures have, those that repeat counted once."""
    return sum(map(len, {tuple(step.text for step in procedure.steps) for procedure in found}))


def _together(one: FoundProcedures, other: FoundProcedures) -> FoundProcedures:
    """Return the procedures found in the same row in two ways, which both find most steps."""
    return FoundProcedures(
        one.procedures + other.procedures,
        one.context + other.context,
        max(one.in_answer, other.in_answer),
        max(one.in_context, other.in_context),
    )


def _texts(row: Row, steps: FoundProcedures) -> Iterable[str]:
    yield _query(row, steps)
    for procedure in (*steps.context, *([steps.answer] if steps.answer else ())):
        yield procedure.text
        yield from (step.text for step in procedure.steps)


def _query(row: Row, steps: FoundProcedures) -> str:
    """Return the text by which the context's procedure is chosen."""
    return steps.answer.text if steps.answer else row.actual_answer or ""


def _closest(row: Row, steps: FoundProcedures, vectors: Vectors) -> Procedure | None:
    """Return the context's procedure that is most similar to the answer's, the longest of equals."""
    if not steps.context:
        return None
    near = vectors.of(each.text for each in steps.context) @ vectors.of([_query(row, steps)])[0]
    order = [(round(float(value), 6), len(each.steps)) for value, each in zip(near, steps.context, strict=True)]
    return steps.context[max(range(len(order)), key=order.__getitem__)]


def _similarity(context: Sequence[Step], answer: Sequence[Step], vectors: Vectors) -> npt.NDArray[np.float64]:
    if not context or not answer:
        return np.zeros((len(context), len(answer)))
    product = vectors.of(step.text for step in context) @ vectors.of(step.text for step in answer).T
    return np.clip(product.astype(np.float64), -1.0, 1.0)


def _located(step: str, texts: Sequence[str]) -> Step:
    """Return a step that a judge named, with its place where it names it as it stands in the only text."""
    start = texts[0].find(step) if len(texts) == 1 else -1
    return Step(step, start, start + len(step)) if start >= 0 else Step(step)


def _shown(
    place: Aligned, context: Sequence[Step], answer: Sequence[Step], similarity: npt.NDArray[np.float64]
) -> dict[str, Json]:
    paired = place.expected is not None and place.actual is not None
    return {
        "edit": place.edit.value,
        "context": None if place.expected is None else quote(context[place.expected].text),
        "answer": None if place.actual is None else quote(answer[place.actual].text),
        "similarity": float(similarity[place.expected, place.actual]) if paired else None,
    }


def _spans(aligned: Sequence[Aligned], answer: Sequence[Step], similarity: npt.NDArray[np.float64]) -> Iterable[Span]:
    for place in aligned:
        step = None if place.actual is None else answer[place.actual]
        if step is not None and step.start >= 0:
            value = None if place.expected is None else float(similarity[place.expected, place.actual])
            yield Span(Source.ACTUAL_ANSWER, step.start, step.end, value=value, note=place.edit.value)


def _doubts(answer: Sequence[Step], context: Sequence[Step]) -> tuple[Flag, ...]:
    if context:
        return ()
    message = f"No steps were found in the retrieved context, with which the answer's {len(answer)} could be compared."
    return (Flag("evaluation", Severity.LOW, message),)
