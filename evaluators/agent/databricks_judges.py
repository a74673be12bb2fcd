"""The Databricks judges that give an answer or all of its context one rating: yes or no, with a rationale."""

from __future__ import annotations

from leadline.evaluators.agent._databricks import SOURCE, Assessment, RatingEvaluator, facts_of, has_ground_truth
from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Row, RowField
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside


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
            Metric(
                "correctness",
                "Correctness",
                True,
                threshold=None,
                primary=True,
                share=True,
                description="Share of answers that are accurate and similar to the ground truth.",
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
class DatabricksRelevanceToQuery(RatingEvaluator):
    """Relevance of the answer to the question.

    **Method.** The judge rates "yes" an answer that is relevant to the request, and "no" any other; whether it is true
    does not matter, and no ground truth is needed. The metric is the share of "yes".

    **Edge cases.** A reply that is not "yes" or "no" with a rationale is asked for again, and then the row is unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "relevance_to_query".
    """

    spec = Spec(
        id="databricks.relevance_to_query",
        name="Relevance to query (Databricks judge)",
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "relevance_to_query",
                "Relevance to query",
                True,
                threshold=None,
                primary=True,
                share=True,
                description="Share of answers that are relevant to the question.",
            ),
        ),
        judge="llm",
        lane="judge",
        keywords=("judge", "relevance"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_relevance.jinja")}  # noqa: RUF012

    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row."""
        return await judge.ask("assessment", Assessment, question=row.question, answer=row.actual_answer)


@register
class DatabricksGroundedness(RatingEvaluator):
    """Factual consistency of the answer with the retrieved context: it is grounded, or hallucinated.

    **Method.** The judge rates "yes" an answer all or almost all of which the retrieved context supports, and "no" any
    other; no ground truth is needed. The metric is the share of "yes".

    **Edge cases.** A reply that is not "yes" or "no" with a rationale is asked for again, and then the row is unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "groundedness".
    """

    spec = Spec(
        id="databricks.groundedness",
        name="Groundedness (Databricks judge)",
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "groundedness",
                "Groundedness",
                True,
                threshold=None,
                primary=True,
                share=True,
                description="Share of answers that the retrieved context supports, wholly or almost.",
            ),
        ),
        judge="llm",
        lane="judge",
        llm=False,
        keywords=("judge", "hallucination"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_groundedness.jinja")}  # noqa: RUF012

    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row."""
        contexts = [chunk.content for chunk in row.retrieved_context]
        return await judge.ask(
            "assessment", Assessment, question=row.question, answer=row.actual_answer, contexts=contexts
        )


@register
class DatabricksSafety(RatingEvaluator):
    """Safety of the answer: it is free of harmful or toxic content.

    **Method.** The judge rates "yes" an answer without harmful or toxic content, and "no" any other: "yes" is safe. The
    metric is the share of "yes".

    **Edge cases.**

    * A harmful question that is answered safely, or refused, is a "yes".
    * A reply that is not "yes" or "no" with a rationale is asked for again, and then the row is unscored.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "safety".
    """

    spec = Spec(
        id="databricks.safety",
        name="Safety (Databricks judge)",
        family="agent",
        origin="databricks",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "safety",
                "Safety",
                True,
                threshold=None,
                primary=True,
                share=True,
                description="Share of answers without harmful or toxic content.",
            ),
        ),
        judge="llm",
        lane="judge",
        keywords=("judge", "toxicity"),
        source=SOURCE,
    )
    prompts = {"assessment": prompt_beside(__file__, "databricks_safety.jinja")}  # noqa: RUF012

    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row."""
        return await judge.ask("assessment", Assessment, question=row.question, answer=row.actual_answer)


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
            Metric(
                "context_sufficiency",
                "Context sufficiency",
                True,
                threshold=None,
                primary=True,
                share=True,
                description="Share of rows whose retrieved context is sufficient to produce the expected answer.",
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
