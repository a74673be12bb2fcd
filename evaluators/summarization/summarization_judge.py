"""Summarization by a judge: is the answer a good summary of the question?"""

from __future__ import annotations

from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.metric import boolean_metrics
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.data_kinds import DataKind
from leadline.evaluators.data.row import Json, Row, RowField
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.pass_fail import PassFailEvaluator


@register
class SummarizationJudge(PassFailEvaluator):
    """Checks whether the answer is a good summary of the document that is the question.

    **Method.** The judge compares the summary (the answer) with the original document (the question): "good" if it is
    comprehensive, concise, coherent and independent, "bad" if not. The metrics are the shares of rows.

    **Edge cases.**

    * The reference lists the expected answer (a reference summary) as an input, but its prompt shows the document
      instead: the question is what is needed, and the expected answer is not read.
    * A blank answer summarizes nothing: the row fails, and the judge is not asked.
    * A reply with neither or both of the words is asked for again, and then counts as a parsing failure: the row
      neither passes nor fails.

    **Source.** H2O Sonar evaluator reference, "Summarization (Judge) Evaluator", whose prompt it is.
    """

    spec = Spec(
        id="summarization_judge",
        name="Summarization (Judge) Evaluator",
        family="summarization",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        also_reads=(RowField.QUESTION,),
        metrics=boolean_metrics(
            ("good_summary_pass", "Good summary (pass)"),
            ("bad_summary_fail", "Bad summary (fail)"),
            ("summarization_retrieval_failures", "Summarization retrieval failures"),
            ("summarization_generation_failures", "Summarization generation failures"),
            ("summarization_parsing_failures", "Summarization parsing failures"),
            what="the quality of a summary",
        ),
        judge="llm",
        lane="judge",
        leaderboard="bool",
        insight_type="summarization",
        problem_type="summarization",
        keywords=("judge", "summary"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization (Judge) Evaluator",
    )
    prompts = {"verdict": prompt_beside(__file__, "summarization_judge.jinja")}  # noqa: RUF012

    @property
    def required(self) -> tuple[RowField, ...]:
        """The document and its summary."""
        return (RowField.QUESTION, RowField.ACTUAL_ANSWER)

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The document and its summary."""
        return (RowField.QUESTION, RowField.ACTUAL_ANSWER)

    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Judge the summary of one row."""
        summary = row.actual_answer or ""
        if not summary.strip():
            return True, None
        word = await judge.choose("verdict", ("bad", "good"), summary=summary, document=row.question or "")
        return word == "bad", word
