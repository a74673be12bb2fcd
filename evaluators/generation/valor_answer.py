"""Answer correctness as Valor's judge measures it."""

from __future__ import annotations

import asyncio

from pydantic import Field

from leadline.evaluators.core import EvalContext, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import STATEMENTS, VALOR_SOURCE, JudgeReply, parts_of
from leadline.evaluators.judge_client.calls import JudgeUnparseable


class Comparison(JudgeReply):
    """The statements of a prediction and of a ground truth, sorted."""

    tp: tuple[str, ...] = Field(alias="TP")
    fp: tuple[str, ...] = Field(alias="FP")
    fn: tuple[str, ...] = Field(alias="FN")

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, 0 without true positives."""
        tp, fp, fn = len(self.tp), len(self.fp), len(self.fn)
        return tp / (tp + 0.5 * (fp + fn)) if tp else 0.0


@register
class ValorAnswerCorrectness(JudgeEvaluator):
    """F1 of the statements that an answer and an expected answer share.

    **Method.** The judge takes the answer and each expected answer apart into statements, and sorts them: statements of
    the answer that the expected answer supports (tp), that it does not support (fp), and statements of the expected
    answer that the answer lacks (fn). The score is tp / (tp + 0.5 (fp + fn)), and with several expected answers their
    maximum. There is no embedding term, unlike in RAGAS.

    **Edge cases.**

    * No true positives: 0; so also an answer that makes no statement, for which nothing is compared.
    * A reply is unreadable, and asked for again, unless TP and FP together are as many as the answer's statements, and
      FN are at most as many as the expected answer's.
    * An expected answer that makes no statement is passed over; where none makes any, the row is unscorable.

    **Source.** Striveworks Valor, metrics reference, "Answer Correctness (LLM-Guided)".
    """

    spec = Spec(
        id="valor.answer_correctness",
        name="Answer Correctness (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "answer_correctness",
            "F1 of the statements that the answer shares with the best matching expected answer.",
            threshold=None,
        ),
        judge="llm",
        keywords=("judge", "statements", "F1"),
        source=VALOR_SOURCE,
    )
    prompts = {"statements": STATEMENTS, "comparison": prompt_beside(__file__, "valor_correctness.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements of both texts, and their comparison."""
        return 3.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        prediction, *truths = await asyncio.gather(
            parts_of(judge, "statements", row.actual_answer or ""),
            *(parts_of(judge, "statements", text) for text in row.expected_answers),
        )
        stated = [truth for truth in truths if truth]
        if not stated:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "No expected answer makes a statement.")
        if not prediction:
            return RowScore({"answer_correctness": 0.0}, Evidence("The answer makes no statement."))
        compared = await asyncio.gather(*(_compare(judge, prediction, truth) for truth in stated))
        best = max(compared, key=lambda comparison: comparison.f1)
        message = (
            f"Of {len(prediction)} statements of the answer {len(best.tp)} are supported; "
            f"it lacks {len(best.fn)} of the expected answer."
        )
        data: dict[str, Json] = {"TP": best.tp, "FP": best.fp, "FN": best.fn}
        data["by_expected_answer"] = [comparison.f1 for comparison in compared]
        return RowScore({"answer_correctness": best.f1}, Evidence(message, data=data))


async def _compare(judge: Judge, prediction: tuple[str, ...], truth: tuple[str, ...]) -> Comparison:
    def check(reply: Comparison) -> None:
        if len(reply.tp) + len(reply.fp) != len(prediction):
            raise JudgeUnparseable(
                f"TP and FP together hold {len(reply.tp) + len(reply.fp)} statements; "
                f"the prediction makes {len(prediction)}."
            )
        if len(reply.fn) > len(truth):
            raise JudgeUnparseable(f"FN holds {len(reply.fn)} statements; the ground truth makes {len(truth)}.")

    return await judge.ask("comparison", Comparison, check=check, prediction=prediction, truth=truth)
