"""A judge with a prompt of the user's own, for the answer or for each retrieved chunk."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from leadline.evaluators.agent.databricks import SOURCE, rate_chunks
from leadline.evaluators.core import REPORT_ONLY, EvalContext, JudgeKey, Metric, Spec, one_metric, register
from leadline.evaluators.data import Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import Assessment, JudgeReply, rated
from leadline.evaluators.judge.verdicts import Reason as Rationale

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
