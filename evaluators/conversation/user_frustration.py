"""User frustration: how the user feels about the assistant, by what they say."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply, plain_word
from leadline.evaluators.judge.verdicts import Reason as Rationale

VALUES: Final = {"none": 0.0, "mild": 0.5, "strong": 1.0}
"""The value of each word."""


class Mood(JudgeReply):
    """Degree of a user's frustration. The reason comes first, so that the judge thinks before it decides."""

    reason: Rationale = ""
    frustration: Annotated[Literal["none", "mild", "strong"], BeforeValidator(plain_word)]


@register
class UserFrustration(JudgeEvaluator):
    """Degree of the user's frustration with the assistant, by what they say.

    **Method.** The judge reads what the user says in a turn and what was said before, and says "none" (0), "mild" (0.5)
    or "strong" (1). What the assistant answers to it is not read: how the user takes that shows in the next turn. A
    conversation's frustration is the mean of its turns; whether it ended frustrated is what its last turn says.

    **Edge cases.**

    * Anger about something else, a storm or a lost ship, is no frustration with the assistant.
    * A user who leaves without another word shows nothing: ``goal_accuracy`` finds what was not reached.
    * A turn in which the user says nothing, such as a greeting, is not applicable.

    **Source.** Leadline's own words, after the judges of user frustration of Phoenix and MLflow.
    """

    spec = Spec(
        id="user_frustration",
        inputs=(RowField.QUESTION, RowField.HISTORY),
        optional=frozenset({RowField.HISTORY}),
        metrics=(
            Metric.lower(
                "frustration",
                "How frustrated the user is: 0 not at all, 0.5 mildly, 1 strongly.",
                name="User frustration",
                threshold=0.25,
                primary=True,
            ),
            Metric.lower(
                "ended_frustrated",
                "Share of conversations in whose last turn the user is frustrated.",
                threshold=0.25,
                share=True,
                over_turns="last",
            ),
        ),
        judge="llm",
        keywords=("judge", "conversation", "sentiment", "satisfaction"),
        source="Arize Phoenix: user frustration; MLflow: user frustration",
    )
    prompts = {"mood": prompt_beside(__file__, "user_frustration.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one turn."""
        if not (row.question or "").strip():
            return RowScore.not_applicable(self.row_metrics, "The user says nothing.")
        mood = await judge.ask("mood", Mood, question=row.question, history=row.history)
        values = {"frustration": VALUES[mood.frustration], "ended_frustrated": float(mood.frustration != "none")}
        return RowScore(values, Evidence(mood.reason, data={"frustration": mood.frustration}))
