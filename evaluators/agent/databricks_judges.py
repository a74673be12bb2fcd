"""The Databricks judges that rate by a ground truth, yes or no with a rationale: expected answers, or facts."""

from __future__ import annotations

from leadline.evaluators.agent._databricks import SOURCE, RatingEvaluator, facts_of, has_ground_truth
from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Row, RowField
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.rating import Assessment


@register
class DatabricksCorrectness(RatingEvaluator):
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
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        also_reads=(RowField.METADATA,),
        metrics=(
            Metric.higher(
                "correctness",
                "Share of answers that are accurate and similar to the ground truth.",
                threshold=None,
                share=True,
            ),
        ),
        judge="llm",
        lane="judge",
        keywords=("judge", "ground truth"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_correctness.jinja")}  # noqa: RUF012

    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row."""
        if not has_ground_truth(row):
            return None
        facts = facts_of(row)
        expected = () if facts else row.expected_answers
        return await judge.ask(
            "assessment", Assessment, question=row.question, answer=row.actual_answer, facts=facts, expected=expected
        )


@register
class DatabricksContextSufficiency(RatingEvaluator):
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
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        also_reads=(RowField.METADATA,),
        metrics=(
            Metric.higher(
                "context_sufficiency",
                "Share of rows whose retrieved context is sufficient to produce the expected answer.",
                threshold=None,
                share=True,
            ),
        ),
        judge="llm",
        lane="judge",
        llm=False,
        keywords=("judge", "retrieval", "ground truth"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_sufficiency.jinja")}  # noqa: RUF012

    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row."""
        if not has_ground_truth(row):
            return None
        facts = facts_of(row)
        expected = () if facts else row.expected_answers
        contexts = [chunk.content for chunk in row.retrieved_context]
        return await judge.ask(
            "assessment", Assessment, question=row.question, contexts=contexts, facts=facts, expected=expected
        )
