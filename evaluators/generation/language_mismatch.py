"""Language mismatch: is the answer in the language of the question?"""

from __future__ import annotations

from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import boolean_metrics
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Json, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.pass_fail import PassFailEvaluator


@register
class LanguageMismatch(PassFailEvaluator):
    """Checks whether the question and the answer are in the same language.

    **Method.** The judge guesses both languages and says "same" or "different". Dialects and tones of one language are
    the same language. The metrics are the shares of rows.

    **Edge cases.**

    * A blank question or answer is in no language: the row is not applicable, and the judge is not asked.
    * A reply with neither or both of the words is asked for again, and then counts as a parsing failure: the row
      neither passes nor fails.

    **Source.** H2O Sonar evaluator reference, "Language Mismatch (Judge) Evaluator", whose prompt it is.
    """

    spec = Spec(
        id="language_mismatch",
        name="Language Mismatch (Judge) Evaluator",
        family="generation",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=boolean_metrics(
            ("same_language_pass", "Same language (pass)"),
            ("language_mismatch_fail", "Language mismatch (fail)"),
            ("language_mismatch_retrieval_failures", "Language mismatch retrieval failures"),
            ("language_mismatch_generation_failures", "Language mismatch generation failures"),
            ("language_mismatch_parsing_failures", "Language mismatch parsing failures"),
            what="the language of the question",
        ),
        judge="llm",
        lane="judge",
        leaderboard="bool",
        keywords=("judge", "language"),
        source="H2O Sonar evaluator reference: Language Mismatch (Judge) Evaluator",
    )
    prompts = {"verdict": prompt_beside(__file__, "language_mismatch.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row, if both of its texts are in a language."""
        for name, text in (("question", row.question), ("answer", row.actual_answer)):
            if not (text or "").strip():
                return RowScore.not_applicable(self.row_metrics, f"The {name} is blank, and so in no language.")
        return await super().judge_row(row, judge, ctx)

    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Compare the languages of one row."""
        word = await judge.choose("verdict", ("different", "same"), question=row.question, answer=row.actual_answer)
        return word == "different", word
