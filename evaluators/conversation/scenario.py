"""Conversations by what the case's scenario asks: did the assistant keep the rules, and to its topics?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Spec, register
from leadline.evaluators.data import Evidence, NotApplicable, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply, VerdictsOrIdk, YesNo, count_of, one_each
from leadline.evaluators.judge.verdicts import Reason as Rationale


def texts_of(row: Row, key: str) -> list[str]:
    """Return the texts that a row's scenario lists under a key, each once; of one text its lines."""
    given = (row.scenario or {}).get(key)
    listed = given.splitlines() if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    return list(dict.fromkeys(text.strip() for text in listed if isinstance(text, str) and text.strip()))


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


_UNDEFINED: Final = {
    "precision": "No topic was answered.",
    "recall": "No allowed topic came up.",
    "f1": "No allowed topic came up, and none was answered.",
    "accuracy": "The user brought up no topic.",
}
"""Why a metric has no value."""


class Topic(JudgeReply):
    """A topic that the user brought up."""

    topic: str
    reason: Rationale = ""
    answered: YesNo
    allowed: YesNo


class Topics(JudgeReply):
    """The topics of a conversation."""

    topics: tuple[Topic, ...]


def adherence(topics: Sequence[Topic]) -> dict[str, float | NotApplicable]:
    """Return the metrics of a conversation by what came up in it."""
    both = [(topic.answered == "yes", topic.allowed == "yes") for topic in topics]
    right = both.count((True, True))
    strayed, refused = both.count((True, False)), both.count((False, True))
    parts = {
        "precision": (right, right + strayed),
        "recall": (right, right + refused),
        "f1": (2 * right, 2 * right + strayed + refused),
        "accuracy": (len(both) - strayed - refused, len(both)),
    }
    return {name: part / of if of else NotApplicable(_UNDEFINED[name]) for name, (part, of) in parts.items()}


@register
class TopicAdherence(JudgeEvaluator):
    """Adherence of an assistant to the topics that it may speak about.

    **Method.** The case's scenario names the ``topics``. In one reply the judge lists what the user brings up in the
    conversation, and says of each topic whether it was answered and whether it is allowed. An allowed topic that was
    answered is right, one that was not is missed, and one that is answered without being allowed is strayed to:
    precision is right / (right + strayed), recall right / (right + missed), F1 their harmonic mean, and accuracy the
    share of topics that were answered if and only if they are allowed.

    **Edge cases.**

    * Where all that came up is off topic and was declined, accuracy is 1 and the others are not applicable: there is
      nothing to be precise about. RAGAS has 0 for all three, as for a conversation without topics.
    * A case whose scenario names no topics, and a conversation in which the user brings up none: not applicable.
    * Results of tools are shown up to 2,000 characters each, marked where they are cut.

    **Source.** RAGAS, topic adherence, in one call instead of three.
    """

    spec = Spec(
        id="topic_adherence",
        inputs=(RowField.MESSAGES, RowField.HISTORY, RowField.SCENARIO),
        optional=frozenset({RowField.HISTORY}),
        metrics=(
            Metric.higher("f1", "Harmonic mean of precision and recall.", name="Topic adherence F1", primary=True),
            Metric.higher(
                "precision", "Share of the answered topics that are allowed.", name="Topic adherence precision"
            ),
            Metric.higher("recall", "Share of the allowed topics that were answered.", name="Topic adherence recall"),
            Metric.higher(
                "accuracy",
                "Share of the topics that were answered if and only if they are allowed.",
                name="Topic adherence accuracy",
            ),
        ),
        judge="llm",
        unit="conversation",
        keywords=("judge", "conversation", "topics", "scope"),
        source="RAGAS (https://docs.ragas.io): topic adherence",
    )
    prompts = {"topics": prompt_beside(__file__, "topic_adherence.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one conversation."""
        allowed = texts_of(row, "topics")
        if not allowed:
            return RowScore.not_applicable(self.row_metrics, "The scenario has no topics.")
        reply = await judge.ask("topics", Topics, messages=row.messages, history=row.history, topics=allowed)
        found = reply.topics
        values = adherence(found)
        kept = sum(topic.answered == topic.allowed for topic in found)
        message = f"{kept} of {len(found)} topics were answered if and only if they are allowed."
        return RowScore(values, Evidence(message, data={"topics": [topic.model_dump() for topic in found]}))
