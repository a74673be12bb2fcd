"""Goal accuracy: was what the user wanted reached when the conversation ended?"""

from __future__ import annotations

from dataclasses import replace

from leadline.evaluators.core import EvalContext, Spec, one_metric, register
from leadline.evaluators.data import Json, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import Assessment, JudgeReply, rated


class EndState(JudgeReply):
    """The user's goal, and what was reached."""

    goal: str = ""
    end_state: str


@register
class GoalAccuracy(JudgeEvaluator):
    """Success of a conversation: it ends in what the user wanted.

    **Method.** In a first call the judge reads the conversation with the calls of tools and their results, and says
    what the user wanted and what was reached. In a second one it compares what was reached with the case's expected
    outcome, or with the goal that it found where the case has none: 1 for "yes", 0 for "no". The second call does not
    see the conversation, so that what the assistant claims there persuades nobody.

    **Edge cases.**

    * A case without an expected outcome, and a conversation in which the user wants nothing: not applicable.
    * What the assistant only promises, and what a tool refused, was not reached.
    * Results of tools are shown up to 2,000 characters each, marked where they are cut. A conversation that the judge
      has no room for is unscored.

    **Source.** RAGAS, agent goal accuracy with and without reference, in its two steps.
    """

    spec = Spec(
        id="goal_accuracy",
        inputs=(RowField.MESSAGES, RowField.HISTORY, RowField.EXPECTED_OUTCOME),
        optional=frozenset({RowField.HISTORY, RowField.EXPECTED_OUTCOME}),
        metrics=one_metric(
            "goal_accuracy", "Share of conversations that end in what the user wanted to reach.", share=True
        ),
        judge="llm",
        unit="conversation",
        keywords=("judge", "conversation", "agents", "goal", "task success"),
        source="RAGAS (https://docs.ragas.io): agent goal accuracy",
    )
    prompts = {  # noqa: RUF012
        "end_state": prompt_beside(__file__, "goal_end_state.jinja"),
        "reached": prompt_beside(__file__, "goal_reached.jinja"),
    }

    def calls_per_row(self) -> float:
        """One for what was reached, and one to compare it with what was wanted."""
        return 2.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one conversation."""
        found = await judge.ask("end_state", EndState, messages=row.messages, history=row.history)
        expected = (row.expected_outcome or "").strip()
        goal = expected or found.goal.strip()
        if not goal:
            return RowScore.not_applicable(self.row_metrics, "The user wants nothing in this conversation.")
        score = rated("goal_accuracy", await judge.ask("reached", Assessment, goal=goal, end_state=found.end_state))
        data: dict[str, Json] = {"goal": goal, "inferred": not expected, "end_state": found.end_state}
        return replace(score, evidence=replace(score.evidence, data={**data, **score.evidence.data}))
