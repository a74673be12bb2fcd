"""Policy: which rules of a list did the assistant keep, which did it break?"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from leadline.evaluators.conversation._scenario import texts_of
from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import VerdictsOrIdk, count_of, one_each

WORDS: Final = {"yes": "kept", "no": "broken", "idk": "not touched"}
"""What a verdict on a rule means."""


class PolicyParams(JudgeKey):
    """Parameters of the policy."""

    rules: tuple[str, ...] = Field(
        (), max_length=200, description="Rules that the assistant has to keep in all cases, beside those of a scenario."
    )


@register
class PolicyAdherence(JudgeEvaluator):
    """Share of the rules touched by a conversation that the assistant kept.

    **Method.** The rules are the parameter ``rules`` and what the case's scenario lists as ``policy``, each once. The
    judge reads the conversation with the calls of tools and their results, and says of each rule whether it was kept,
    was broken, or is not touched. The value is kept / (kept + broken); beside it stands whether any rule was broken.

    **Edge cases.**

    * A rule that was broken and later made up for was broken.
    * Without rules, and where none is touched, a conversation is not applicable: it shows nothing of the policy.
    * A text as ``policy`` is taken line by line. More than 20 rules are judged in several replies.
    * A reply with more or fewer verdicts than rules is unreadable, and asked for again.
    * Results of tools are shown up to 2,000 characters each, marked where they are cut.

    **Source.** Leadline's own, after the policies of tau-bench and the rubrics of Google's Agent Development Kit.
    """

    spec = Spec(
        id="policy",
        name="Policy adherence",
        inputs=(RowField.MESSAGES, RowField.HISTORY, RowField.SCENARIO),
        optional=frozenset({RowField.HISTORY, RowField.SCENARIO}),
        metrics=(
            Metric.higher(
                "policy", "Share of the rules touched that were kept.", name="Rules kept", threshold=1.0, primary=True
            ),
            Metric.lower(
                "broken",
                "Share of conversations in which a rule was broken.",
                name="Conversations with a broken rule",
                threshold=0.0,
                share=True,
            ),
        ),
        judge="llm",
        unit="conversation",
        keywords=("judge", "conversation", "agents", "rules", "rubric", "compliance"),
        source="tau-bench (https://github.com/sierra-research/tau2-bench); Google Agent Development Kit: rubrics",
    )
    parameters = PolicyParams
    params: PolicyParams
    prompts = {"verdicts": prompt_beside(__file__, "policy.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one conversation."""
        given = (rule.strip() for rule in (*self.params.rules, *texts_of(row, "policy")))
        rules = list(dict.fromkeys(rule for rule in given if rule))
        if not rules:
            return RowScore.not_applicable(self.row_metrics, "There are no rules.")
        verdicts = await one_each(
            judge, "verdicts", rules, shape=VerdictsOrIdk, messages=row.messages, history=row.history
        )
        kept, broken = count_of(verdicts), count_of(verdicts, "no")
        if not kept + broken:
            return RowScore.not_applicable(self.row_metrics, "The conversation touches none of the rules.")
        said = [
            {"rule": rule, "verdict": WORDS[verdict.verdict], "reason": verdict.reason}
            for rule, verdict in zip(rules, verdicts, strict=True)
        ]
        message = f"Of {len(rules)} rules {kept} were kept and {broken} broken."
        values = {"policy": kept / (kept + broken), "broken": float(broken > 0)}
        return RowScore(values, Evidence(message, data={"rules": said}))
