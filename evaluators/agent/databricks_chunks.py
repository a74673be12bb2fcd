"""The Databricks judge that rates the relevance of each retrieved chunk."""

from __future__ import annotations

from leadline.evaluators.agent._databricks import SOURCE, rate_chunks
from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.rating import Assessment


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
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT),
        metrics=(Metric.higher("precision", name="Chunk relevance precision", threshold=None),),
        judge="llm",
        lane="judge",
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
