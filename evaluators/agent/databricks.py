"""Databricks' judges of its agent evaluation, and its recall of documents, which needs no judge.

They rate an answer by its ground truth, each retrieved chunk, or either by a prompt of the user's own.
``plugins/databricks/databricks_table.py`` reads what a score's evidence keeps of ratings of chunks: under
``assessment`` the lists ``ratings``, ``rationales`` and ``error_messages``.
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from leadline.evaluators.core import (
    REPORT_ONLY,
    EvalContext,
    JudgeKey,
    Metric,
    RowEvaluator,
    Spec,
    one_metric,
    register,
)
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import Assessment, JudgeReply, chunk_spans, rated
from leadline.evaluators.judge.verdicts import Reason as Rationale
from leadline.evaluators.judge_client.calls import JudgeError

SOURCE: Final = "Databricks, Mosaic AI Agent Evaluation LLM judges reference"
_FACTS: Final = "expected_facts"
"""Key of the metadata in which a dataset may give facts instead of an expected answer."""

FIELDS: Final = {
    "request": RowField.QUESTION,
    "response": RowField.ACTUAL_ANSWER,
    "retrieved_context": RowField.RETRIEVED_CONTEXT,
}
"""Placeholders of a judge's prompt, and what they stand for."""

TAKEN: Final = frozenset(
    {"correctness", "relevance_to_query", "groundedness", "safety", "chunk_relevance", "context_sufficiency"}
)
"""Assessments of the built-in judges, whose columns a custom one must not write."""

DEFAULT_PROMPT: Final = (
    "Rate how helpful the response is for the person who made the request.\n"
    "1: it does not help at all. 3: it helps in part. 5: it does all that was asked for.\n\n"
    "Request: {request}\n\nResponse: {response}"
)

_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(FIELDS) + r")\}")


class GroundTruthJudge(JudgeEvaluator):
    """A Databricks judge that rates a row by its ground truth: yes is 1 and no is 0."""

    @abstractmethod
    def shown(self, row: Row) -> dict[str, Any]:
        """Return what its prompt shows beside the question and the ground truth, by name."""

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        facts = facts_of(row)
        if not (facts or row.expected_answers):
            return RowScore.not_applicable(self.row_metrics, "The case has neither an expected answer nor facts.")
        expected = () if facts else row.expected_answers
        assessment = await judge.ask(
            "assessment", Assessment, question=row.question, facts=facts, expected=expected, **self.shown(row)
        )
        return rated(self.row_metrics[0], assessment)


async def rate_chunks(row: Row, metric: str, assess: Callable[[str], Awaitable[Assessment]]) -> RowScore:
    """Rate each retrieved chunk by a call of its own; the score is the share of chunks rated yes.

    Equal chunks of equal questions are asked about once, whichever models retrieved them. A chunk whose call fails
    leaves the row unscored: the share is not known. The ratings of the other chunks are kept all the same.
    """
    replies = await asyncio.gather(*(_guarded(chunk.content, assess) for chunk in row.retrieved_context))
    assessment: dict[str, Json] = {
        "ratings": [reply.rating if isinstance(reply, Assessment) else None for reply in replies],
        "rationales": [reply.rationale if isinstance(reply, Assessment) else None for reply in replies],
        "error_messages": [str(reply) if isinstance(reply, JudgeError) else None for reply in replies],
    }
    errors = [reply for reply in replies if isinstance(reply, JudgeError)]
    if errors:
        message = f"{len(errors)} of {len(replies)} chunks were not rated: {errors[0]}"
        return RowScore({metric: Unscored(errors[0].reason, message)}, Evidence(data={"assessment": assessment}))
    if not replies:
        return RowScore.unscored((metric,), Reason.UNSCORABLE, "No chunk was retrieved.")
    ratings = [isinstance(reply, Assessment) and reply.rating == "yes" for reply in replies]
    return RowScore(
        {metric: sum(ratings) / len(ratings)},
        Evidence(
            f"{sum(ratings)} of {len(ratings)} retrieved chunks are rated yes.",
            chunk_spans(row.retrieved_context, ratings, "yes", "no"),
            {"assessment": assessment},
        ),
    )


async def _guarded(text: str, assess: Callable[[str], Awaitable[Assessment]]) -> Assessment | JudgeError:
    if not text.strip():
        return Assessment(rationale="The chunk is blank.", rating="no")
    try:
        return await assess(text)
    except JudgeError as error:
        return error


def facts_of(row: Row) -> tuple[str, ...]:
    """Return the facts that an answer must support, as far as the dataset names any."""
    given = row.metadata.get(_FACTS)
    facts: Sequence[object] = (given,) if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    return tuple(fact for fact in facts if isinstance(fact, str) and fact.strip())


@register
class DatabricksCorrectness(GroundTruthJudge):
    """Factual accuracy of the answer, and its semantic similarity to the ground truth.

    **Method.** The judge rates "yes" an answer that is highly accurate and semantically similar to the ground truth;
    minor omissions or inaccuracies that still capture its intent are acceptable. The metric is the share of "yes".

    **Edge cases.**

    * The ground truth is the case's ``expected_facts`` where the dataset gives them (all of them must be supported),
      else its expected answers (one of them must be matched). A row that has neither is not applicable.
    * A reply that is not "yes" or "no" with a rationale is asked for again, and then the row is unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "correctness".
    """

    spec = Spec(
        id="databricks.correctness",
        name="Correctness (Databricks judge)",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        also_reads=(RowField.METADATA,),
        metrics=one_metric(
            "correctness",
            "Share of answers that are accurate and similar to the ground truth.",
            threshold=None,
            share=True,
        ),
        judge="llm",
        keywords=("judge", "ground truth"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_correctness.jinja")}  # noqa: RUF012

    def shown(self, row: Row) -> dict[str, Any]:
        """Return the answer."""
        return {"answer": row.actual_answer}


@register
class DatabricksContextSufficiency(GroundTruthJudge):
    """Sufficiency of the retrieved context to produce the expected answer.

    **Method.** The judge rates "yes" a context from which the ground truth can be produced; otherwise "no", and its
    rationale says what is missing. The metric is the share of "yes".

    **Edge cases.**

    * The ground truth is the case's ``expected_facts`` where the dataset gives them (all of them are needed), else its
      expected answers (one of them is enough). A row that has neither is not applicable.
    * A reply that is not "yes" or "no" with a rationale is asked for again, and then the row is unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "context_sufficiency".
    """

    spec = Spec(
        id="databricks.context_sufficiency",
        name="Context sufficiency (Databricks judge)",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        also_reads=(RowField.METADATA,),
        metrics=one_metric(
            "context_sufficiency",
            "Share of rows whose retrieved context is sufficient to produce the expected answer.",
            threshold=None,
            share=True,
        ),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "ground truth"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_sufficiency.jinja")}  # noqa: RUF012

    def shown(self, row: Row) -> dict[str, Any]:
        """Return the retrieved chunks."""
        return {"contexts": [chunk.content for chunk in row.retrieved_context]}


@register
class DatabricksChunkRelevance(JudgeEvaluator):
    """Share of the retrieved chunks that are relevant to the question.

    **Method.** The judge rates each chunk in a call of its own, so that a failure concerns one chunk, and so that a
    chunk that several models retrieved for a question is rated once. The precision is the number of chunks rated "yes"
    divided by the number of chunks: three of four give 0.75.

    **Edge cases.**

    * A blank chunk is a "no", and nothing is asked.
    * A chunk that could not be rated has its error message, and leaves the row unscored; the ratings of the other
      chunks are kept in the evidence.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "chunk_relevance".
    """

    spec = Spec(
        id="databricks.chunk_relevance",
        name="Chunk relevance (Databricks judge)",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT),
        metrics=one_metric("precision", name="Chunk relevance precision", threshold=None),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "relevance"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_chunk.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """One call per chunk, of which a row has a few."""
        return 4.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""

        async def assess(text: str) -> Assessment:
            return await judge.ask("assessment", Assessment, question=row.question, chunk=text)

        return await rate_chunks(row, "precision", assess)


@register
class DatabricksDocumentRecall(RowEvaluator):
    """Share of the expected documents that are among the retrieved ones.

    **Method.** The distinct documents (``doc_uri``) that the case expects and that some retrieved chunk comes from,
    divided by the distinct documents that it expects: one of two gives 0.5, however many others were retrieved. There
    is no judge.

    **Edge cases.**

    * Chunks without a ``doc_uri`` count for nothing.
    * A case without expected documents, or a row whose chunks name no document, is not applicable.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "document_recall".
    """

    spec = Spec(
        id="databricks.document_recall",
        name="Document recall",
        origin="databricks",
        inputs=(RowField.EXPECTED_DOCUMENTS, RowField.RETRIEVED_DOCUMENTS),
        metrics=one_metric("document_recall", "Share of the expected documents that were retrieved.", threshold=None),
        llm=False,
        keywords=("rule-based", "deterministic", "retrieval"),
        source=SOURCE,
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row."""
        expected = dict.fromkeys(row.expected_documents)
        retrieved = {chunk.doc_uri for chunk in row.retrieved_context if chunk.doc_uri is not None}
        if not expected or not retrieved:
            return RowScore.not_applicable(self.row_metrics, "There is no expected or no retrieved document.")
        missing: list[Json] = [document for document in expected if document not in retrieved]
        message = f"{len(expected) - len(missing)} of {len(expected)} expected documents were retrieved."
        return RowScore(
            {"document_recall": 1 - len(missing) / len(expected)}, Evidence(message, data={"missing": missing})
        )


class Rating(JudgeReply):
    """A score from 1 to 5. The justification comes first, so that the judge thinks before it decides."""

    justification: Rationale = ""
    score: Annotated[float, Field(ge=1, le=5, strict=True)]


class CustomParams(JudgeKey):
    """Parameters of the custom judge."""

    assessment_name: str = Field(
        "custom",
        min_length=1,
        max_length=100,
        pattern=r"^[\w.-]+$",
        description="Name of the assessment in the columns of the Databricks tables.",
        json_schema_extra=REPORT_ONLY,
    )
    assessment_type: Literal["ANSWER", "RETRIEVAL"] = Field(
        "ANSWER", description="What is rated: the ANSWER, or in RETRIEVAL each retrieved chunk."
    )
    judge_prompt: str = Field(
        DEFAULT_PROMPT,
        max_length=100_000,
        description="What the judge is asked, with the placeholders {request}, {response} and "
        "{retrieved_context}; other braces are left as they are. It rates from 1 to 5.",
    )
    rating_threshold: float = Field(
        3.0, ge=0, le=5, description='Scores from 1 to 5 above this are a "yes", all others a "no".'
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        named = placeholders(self.judge_prompt)
        if not named:
            raise ValueError(f"judge_prompt holds none of {', '.join(f'{{{name}}}' for name in FIELDS)}")
        if self.assessment_type == "RETRIEVAL" and "retrieved_context" not in named:
            raise ValueError("judge_prompt of a RETRIEVAL assessment must hold {retrieved_context}, the chunk to rate")
        if self.assessment_name in TAKEN:
            raise ValueError(f"assessment_name {self.assessment_name!r} is that of a built-in judge")
        return self


def placeholders(prompt: str) -> frozenset[str]:
    """Return the placeholders that stand in a prompt."""
    return frozenset(_PLACEHOLDER.findall(prompt))


def pieces(prompt: str, texts: dict[str, list[str]]) -> list[dict[str, str]]:
    """Return a prompt as pieces: its own text with an empty label, and texts under evaluation with a label.

    Args:
        prompt: The user's prompt.
        texts: Texts under evaluation by placeholder: an entry for each that the prompt names.
    """
    out: list[dict[str, str]] = []
    for index, part in enumerate(_PLACEHOLDER.split(prompt)):
        if index % 2 == 0:
            out.append({"label": "", "text": part})
        else:
            out += [{"label": part, "text": text} for text in texts[part]]
    return out


@register
class DatabricksCustom(JudgeEvaluator):
    """A judge with a prompt of the user's own, for the answer or for each retrieved chunk.

    **Method.** The judge is asked ``judge_prompt`` with its placeholders filled in, and rates from 1 to 5 with a
    justification. A score above ``rating_threshold`` is a "yes". For the assessment type ``ANSWER`` the metric is the
    share of rows rated "yes"; for ``RETRIEVAL`` each chunk is rated in a call of its own, in which
    ``{retrieved_context}`` is that chunk, and a row's value is its share of chunks rated "yes".

    **Edge cases.**

    * A row needs just what the prompt names, and for ``RETRIEVAL`` a retrieved context; else it is not applicable.
    * The prompt is no template language: other braces stay as they are, and what is filled in is fenced as data.
    * The reference leaves open which scores are a "yes"; above 3 is the default here.
    * A score outside 1 to 5 is unreadable, and asked for again; a chunk that stays unrated leaves its row unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, custom judge metrics.
    """

    spec = Spec(
        id="databricks.custom",
        name="Custom judge (assessment ANSWER or RETRIEVAL)",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        also_reads=(RowField.RETRIEVED_CONTEXT,),
        metrics=one_metric(
            "rating",
            "Share of answers, or mean share of an answer's retrieved chunks, that are rated yes.",
            threshold=None,
            share=True,
        ),
        judge="llm",
        keywords=("judge", "custom", "prompt"),
        source=SOURCE,
    )
    parameters = CustomParams
    params: CustomParams
    prompts = {"rating": prompt_beside(__file__, "databricks_custom.jinja")}  # noqa: RUF012

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The rating, which is 0 or 1 only where the answer, not each chunk, is rated."""
        return tuple(replace(metric, share=not self._by_chunk) for metric in self.spec.metrics)

    def criterion(self) -> list[str]:
        """Return the user's prompt."""
        return [self.params.judge_prompt]

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields that the prompt names."""
        return self.reads

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that the prompt names."""
        named = {FIELDS[name] for name in placeholders(self.params.judge_prompt)}
        return tuple(field for field in RowField if field in named)

    @property
    def _by_chunk(self) -> bool:
        return self.params.assessment_type == "RETRIEVAL"

    def calls_per_row(self) -> float:
        """One call, or one per chunk, of which a row has a few."""
        return 4.0 if self._by_chunk else 1.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""

        async def assess(contexts: list[str]) -> Assessment:
            texts = {
                "request": [row.question or ""],
                "response": [row.actual_answer or ""],
                "retrieved_context": contexts,
            }
            reply = await judge.ask("rating", Rating, pieces=pieces(self.params.judge_prompt, texts))
            word: Literal["yes", "no"] = "yes" if reply.score > self.params.rating_threshold else "no"
            return Assessment(rationale=reply.justification, rating=word)

        if self._by_chunk:
            return await rate_chunks(row, "rating", lambda text: assess([text]))
        return rated("rating", await assess([chunk.content for chunk in row.retrieved_context]))
