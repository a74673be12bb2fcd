"""RAGAS's metrics of the answer, and RAGAS itself: the harmonic mean of four of the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, JudgeKey, Metric, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import quote
from leadline.evaluators.data import (
    Evidence,
    Json,
    NotApplicable,
    Reason,
    Row,
    RowField,
    RowScore,
    Source,
    Unscored,
    clip,
)
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.judge.judge_evaluator import (
    EmbeddingJudgeEvaluator,
    EmbeddingJudgeParams,
    Judge,
    JudgeEvaluator,
    prompt_beside,
)
from leadline.evaluators.judge.verdicts import (
    AT_ONCE,
    RAGAS_SOURCE,
    STATEMENTS,
    AnyVerdict,
    JudgeReply,
    Measured,
    as_evidence,
    best_of,
    context_of,
    count_of,
    expected_answers,
    one_each,
    parts_of,
    verbatim_spans,
)
from leadline.evaluators.judge_client.calls import JudgeError, JudgeUnparseable
from leadline.evaluators.retrieval.ragas_contexts import ContextPrecision, ContextRecall


@register
class Faithfulness(JudgeEvaluator):
    """Share of the claims in the answer that can be inferred from the retrieved context.

    **Method.** The judge takes the answer apart into statements, and says of each whether it can be directly inferred
    from the chunks, joined by line feeds: ``faithfulness = inferable statements / statements``. What contradicts the
    context and what it does not mention count alike. All verdicts are one reply, 20 at most.

    **Edge cases.**

    * An answer that claims nothing (blank, a greeting, a refusal) is neither faithful nor not: not applicable. RAGAS
      has NaN there, Valor 1.
    * From a blank context nothing can be inferred: 0, and the judge is only asked for the statements.
    * A reply with more or fewer verdicts than statements is unreadable, and asked for again.

    **Source.** H2O Sonar evaluator reference, "Faithfulness Evaluator"; RAGAS, https://arxiv.org/abs/2309.15217.
    """

    spec = Spec(
        id="faithfulness",
        name="Faithfulness Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=one_metric("faithfulness"),
        judge="llm",
        llm=False,
        keywords=("judge", "hallucination", "statements", "RAGAS"),
        source=RAGAS_SOURCE,
    )
    prompts = {"statements": STATEMENTS, "faithfulness": prompt_beside(__file__, "faithfulness.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements and their verdicts."""
        return 2.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        answer = row.actual_answer or ""
        statements = await parts_of(judge, "statements", answer)
        if not statements:
            return RowScore.not_applicable(self.row_metrics, "The answer claims nothing.")
        context = context_of(row)
        if not context.strip():
            return Measured(0.0, "The retrieved context is blank.").as_score("faithfulness")
        verdicts = await one_each(judge, "faithfulness", statements, context=context)
        inferable = count_of(verdicts)
        return Measured(
            inferable / len(statements),
            f"{inferable} of the answer's {len(statements)} statements can be inferred from the retrieved context.",
            {"statements": as_evidence(statements, verdicts)},
            verbatim_spans(Source.ACTUAL_ANSWER, answer, statements, verdicts),
        ).as_score("faithfulness")


class Questions(JudgeReply):
    """Questions that an answer would answer, and whether it is noncommittal."""

    noncommittal: bool
    questions: tuple[str, ...]


class AnswerRelevancyParams(EmbeddingJudgeParams):
    """Parameters of answer relevancy."""

    generated_questions: int = Field(3, ge=1, le=20, description="Questions that the judge generates from the answer.")


def relevancy(cosines: Sequence[float], *, noncommittal: bool) -> float:
    """Return the mean of cosines, brought into [0, 1], and 0 for a noncommittal answer."""
    return 0.0 if noncommittal else clip(sum(cosines) / len(cosines), 0.0, 1.0)


@register
class AnswerRelevancy(EmbeddingJudgeEvaluator):
    """Mean similarity of the question and questions that the judge generates from the answer.

    **Method.** The judge generates N (3) questions for the answer, in one reply, and says whether the answer is
    noncommittal::

        answer relevancy = mean over i of cosine(emb(generated question i), emb(question)),  0 if noncommittal

    **Edge cases.**

    * A noncommittal answer ("I don't know") is not relevant: 0. So is a blank one, and nothing is asked about it.
    * A mean cosine below 0 counts as 0, the end of the metric's range; RAGAS leaves it negative.
    * A blank question can be answered by nothing: the row is unscored.
    * A reply with more or fewer questions, or with a blank one, is unreadable, and asked for again.
    * Without its embedder a row is unscored, and the judge is not asked.

    The retrieved context is not read: the reference lists it as an input, but its method does not use it.

    **Source.** H2O Sonar evaluator reference, "Answer Relevancy Evaluator"; RAGAS, https://arxiv.org/abs/2309.15217,
    since 0.3.6 noncommittal only when all of the questions are.
    """

    spec = Spec(
        id="answer_relevancy",
        name="Answer Relevancy Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.RETRIEVED_CONTEXT}),
        metrics=one_metric(
            "answer_relevancy", "Mean similarity of the question and questions that a judge generates from the answer."
        ),
        judge="llm",
        keywords=("judge", "embeddings", "relevance", "RAGAS"),
        suits=(DataKind.QUESTIONS,),
        source=RAGAS_SOURCE,
    )
    parameters = AnswerRelevancyParams
    params: AnswerRelevancyParams
    prompts = {"answer_relevancy": prompt_beside(__file__, "answer_relevancy.jinja")}  # noqa: RUF012

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The question and the answer."""
        return (RowField.QUESTION, RowField.ACTUAL_ANSWER)

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the questions; those that the judge will generate are not known yet."""
        return {self.embedder(ctx): dict.fromkeys(row.question or "" for row in rows)}

    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        question, answer = row.question or "", row.actual_answer or ""
        if not question.strip():
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The question is blank.")
        if not answer.strip():
            return Measured(0.0, "The answer is blank.").as_score("answer_relevancy")
        await self.cosines(question, (), ctx)
        reply = await self._generate(judge, answer)
        cosines = [] if reply.noncommittal else await self.cosines(question, reply.questions, ctx)
        return Measured(
            relevancy(cosines, noncommittal=reply.noncommittal),
            "The answer is noncommittal." if reply.noncommittal else "",
            {
                "noncommittal": reply.noncommittal,
                "questions": [quote(generated) for generated in reply.questions],
                "cosines": cosines,
            },
        ).as_score("answer_relevancy")

    async def _generate(self, judge: Judge, answer: str) -> Questions:
        count = self.params.generated_questions

        def check(reply: Questions) -> None:
            filled = sum(bool(generated.strip()) for generated in reply.questions)
            if not reply.noncommittal and (filled != count or len(reply.questions) != count):
                raise JudgeUnparseable(f"The reply holds {filled} questions instead of {count}.")

        return await judge.ask("answer_relevancy", Questions, check=check, answer=answer, count=count)


class AnswerCorrectnessParams(EmbeddingJudgeParams):
    """Parameters of answer correctness."""

    factuality_weight: float = Field(
        0.75, ge=0, le=1, description="Weight of factuality; the rest is that of semantic similarity."
    )
    beta: float = Field(
        1.0, gt=0, le=100, description="Above 1 what the answer lacks counts more than what it says wrongly."
    )


def f_score(tp: int, fp: int, fn: int, beta: float = 1.0) -> float:
    """Return (1 + beta²) tp / ((1 + beta²) tp + beta² fn + fp), and 0 without true positives; beta is above 0."""
    weighted = (1 + beta * beta) * tp
    return weighted / (weighted + beta * beta * fn + fp) if tp else 0.0


@register
class AnswerCorrectness(EmbeddingJudgeEvaluator):
    """Weighted mean of the answer's factuality and its semantic similarity to the expected answer.

    **Method.** The judge takes both texts apart into statements, and says of each whether the other text makes it too:
    statements of the answer that the expected answer supports (TP) and does not support (FP), and statements of the
    expected answer that the answer lacks (FN)::

        factuality         = TP / (TP + 0.5 (FP + FN)),  the F1 score; with ``beta`` the F score of that beta
        similarity         = cosine(emb(expected answer), emb(answer)), a negative one counts as 0
        answer correctness = 0.75 factuality + 0.25 similarity

    With several expected answers it is the best of them.

    **Edge cases.**

    * Neither text makes a statement ("Hi." for "Hello."): nothing differs in fact, factuality 1, as in RAGAS.
    * Only one of them does: factuality 0. (The newest RAGAS says 1 there, which rewards saying nothing.)
    * A blank answer is not correct: 0, and the judge is not asked.
    * Expected answers that are all blank: the row is unscored.
    * A reply with more or fewer verdicts than statements is unreadable, and asked for again.
    * Without its embedder a row is unscored, and the judge is not asked.

    **Source.** H2O Sonar evaluator reference, "Answer Correctness Evaluator"; RAGAS, https://docs.ragas.io.
    """

    spec = Spec(
        id="answer_correctness",
        name="Answer Correctness Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "answer_correctness", "How far the answer says what the expected answer says, in facts and in meaning."
        ),
        judge="llm",
        keywords=("judge", "embeddings", "factuality", "RAGAS"),
        suits=(DataKind.SENTENCES,),
        source=RAGAS_SOURCE,
    )
    parameters = AnswerCorrectnessParams
    params: AnswerCorrectnessParams
    prompts = {"statements": STATEMENTS, "answer_correctness": prompt_beside(__file__, "answer_correctness.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements of both texts, and their verdicts."""
        return 3.0

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the answers and the expected answers."""
        texts = (text for row in rows for text in (row.actual_answer or "", *row.expected_answers))
        return {self.embedder(ctx): dict.fromkeys(texts)}

    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        expected, answer = expected_answers(row), row.actual_answer or ""
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        if not answer.strip():
            return Measured(0.0, "The answer is blank.").as_score("answer_correctness")
        cosines = dict(zip(expected, await self.cosines(answer, list(expected.values()), ctx), strict=True))

        async def measure(number: int, truth: str) -> Measured:
            return await self._compare(judge, answer, truth, clip(cosines[number], 0.0, 1.0))

        return (await best_of(expected, measure)).as_score("answer_correctness")

    async def _compare(self, judge: Judge, answer: str, truth: str, similarity: float) -> Measured:
        ours, theirs = await asyncio.gather(parts_of(judge, "statements", answer), parts_of(judge, "statements", truth))
        verdicts: tuple[AnyVerdict, ...] = ()
        if ours and theirs:
            verdicts = await _presence(judge, answer, truth, ours, theirs)
        of_answer, of_truth = verdicts[: len(ours)], verdicts[len(ours) :]
        tp, found = count_of(of_answer), count_of(of_truth)
        fp, fn = len(ours) - tp, len(theirs) - found
        factuality = f_score(tp, fp, fn, self.params.beta) if ours or theirs else 1.0
        weight = self.params.factuality_weight
        return Measured(
            weight * factuality + (1 - weight) * similarity,
            f"The expected answer supports {tp} of the answer's {len(ours)} statements; the answer lacks {fn} of "
            f"the expected {len(theirs)}.",
            {
                "factuality": factuality,
                "similarity": similarity,
                "answer": as_evidence(ours, of_answer) if verdicts else list(ours),
                "expected": as_evidence(theirs, of_truth) if verdicts else list(theirs),
            },
            verbatim_spans(Source.ACTUAL_ANSWER, answer, ours, of_answer) if verdicts else (),
        )


async def _presence(
    judge: Judge, answer: str, truth: str, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[AnyVerdict, ...]:
    """Ask of each statement of the answer, then of the expected answer, whether the other makes it too."""
    items = (*ours, *theirs)
    starts = range(0, len(items), AT_ONCE)
    replies = await asyncio.gather(
        *(
            one_each(
                judge,
                "answer_correctness",
                items[start : start + AT_ONCE],
                of_answer=len(ours) - start,
                answer=answer,
                truth=truth,
            )
            for start in starts
        )
    )
    return tuple(verdict for reply in replies for verdict in reply)


PARTS: tuple[type[JudgeEvaluator], ...] = (Faithfulness, AnswerRelevancy, ContextPrecision, ContextRecall)


def harmonic_mean(values: Sequence[float]) -> float:
    """Return the harmonic mean of values from 0 to 1, at least one; 0 if one of them is 0."""
    return len(values) / sum(1 / value for value in values) if all(values) else 0.0


@register
class Ragas(JudgeEvaluator):
    """Overall quality of a RAG system's answer: the harmonic mean of four metrics.

    **Method.** ``RAGAS = 4 / (1/F + 1/AR + 1/CP + 1/CR)`` of faithfulness (F), answer relevancy (AR), context precision
    (CP) and context recall (CR), each measured by its own evaluator. These evaluators make the same calls, and equal
    calls are made once: beside them RAGAS costs nothing more.

    **Edge cases.**

    * One of the four is 0: RAGAS is 0, the limit of the formula.
    * One of the four has no value, since the judge gave no verdict or it makes no sense for the row (an answer that
      claims nothing): neither has RAGAS, for the same reason, and the other metrics keep theirs.

    **Source.** H2O Sonar evaluator reference, "RAGAS Evaluator"; https://arxiv.org/abs/2309.15217.
    """

    spec = Spec(
        id="ragas",
        name="RAGAS Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "ragas",
                "Harmonic mean of faithfulness, answer relevancy, context precision and context recall.",
                name="RAGAS",
                primary=True,
            ),
            *(Metric(m.key, m.name, True, description=m.description) for part in PARTS for m in part.spec.metrics),
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "embeddings", "retrieval", "generation", "RAGAS"),
        source=RAGAS_SOURCE,
    )
    parameters = AnswerRelevancyParams
    params: AnswerRelevancyParams
    prompts = {name: path for part in PARTS for name, path in part.prompts.items()}  # noqa: RUF012

    def parts(self) -> tuple[JudgeEvaluator, ...]:
        """Return the four evaluators under these parameters."""
        judge = JudgeKey(custom_eval_judge_config_key=self.params.custom_eval_judge_config_key)
        return tuple(part(self.params if part is AnswerRelevancy else judge) for part in PARTS)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the embedder of answer relevancy."""
        return tuple(ref for part in self.parts() for ref in part.models(ctx))

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return what answer relevancy compares."""
        return {ref: texts for part in self.parts() for ref, texts in part.texts_to_embed(rows, ctx).items()}

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: this formula, and all that the four depend on."""
        parts = {part.spec.id: part.identity(ctx) for part in self.parts()}
        return super().identity(ctx) | {"params": parts[AnswerRelevancy.spec.id]["params"], "parts": parts}

    def calls_per_row(self) -> float:
        """Those of the four."""
        return sum(part.calls_per_row() for part in self.parts())

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row by the four at once."""
        parts = self.parts()
        judges = [replace(judge, _asked=[]) for _ in parts]
        scores = await asyncio.gather(*(_guarded(part, row, its, ctx) for part, its in zip(parts, judges, strict=True)))
        values = {key: value for score in scores for key, value in score.values.items()}
        data: dict[str, Json] = {
            part.spec.id: score.evidence.to_json() for part, score in zip(parts, scores, strict=True)
        }
        data["calls"] = [digest for its in judges for digest in its.calls]
        return RowScore(
            {"ragas": _mean(list(values.values())), **values},
            Evidence(spans=tuple(span for score in scores for span in score.evidence.spans), data=data),
        )


async def _guarded(part: JudgeEvaluator, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
    try:
        return await part.judge_row(row, judge, ctx)
    except JudgeError as error:
        return part.without_verdict(row, error)


def _mean(values: Sequence[float | Unscored | NotApplicable]) -> float | Unscored | NotApplicable:
    for kind in (Unscored, NotApplicable):
        for value in values:
            if isinstance(value, kind):
                return value
    return harmonic_mean([value for value in values if isinstance(value, float | int)])
