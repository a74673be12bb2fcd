"""Preference: which of two models' answers to the same case is better, asked in both orders."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field

from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Spec, register
from leadline.evaluators.data import (
    TIE,
    Evidence,
    NotApplicable,
    Order,
    PairOutcome,
    Preferred,
    RivalAnswer,
    Row,
    RowField,
    RowScore,
    from_payload,
    of_majority,
    outcome,
    to_payload,
)
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, PairsToAsk, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.judge.verdicts import Reason as Rationale

CRITERIA: Final = (
    "The better answer is the one that helps more whoever asked: it is right, says all that was asked for, says "
    "nothing that is wrong or beside the point, and is clear. Where an answer is given that is known to be right, "
    "being right means to agree with it."
)


def _plain_word(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class ComparedAnswers(JudgeReply):
    """The better of two answers. The reason comes first, so that the judge thinks before it decides."""

    model_config = ConfigDict(title="Comparison")  # judges read it, and scores depend on what they read

    reason: Rationale = ""
    verdict: Annotated[Literal["first", "second", "tie"], BeforeValidator(_plain_word)]


class PreferenceParams(JudgeKey):
    """Parameters of preference."""

    baseline: str = Field(
        "",
        max_length=1_000,
        description="Key of a model that all others are compared with, and only with it; by default models are "
        "compared with each other.",
    )
    most_rivals: int = Field(
        4,
        ge=2,
        le=100,
        description="The most models that each answer is compared with, where there is no baseline. Of more, each "
        "question has its own, drawn so that all models have as many and all pairs occur.",
    )
    criteria: str = Field(
        CRITERIA, min_length=1, max_length=20_000, description="What makes an answer better, as the judge is told it."
    )


class _Judged(NamedTuple):
    """A pair's outcome, and what the judge said with the row's answer first, and with it second."""

    outcome: PairOutcome
    as_first: ComparedAnswers | None = None
    as_second: ComparedAnswers | None = None


def rivals_of(row: Row, most: int, baseline: str = "") -> tuple[RivalAnswer, ...]:
    """Return the answers that a row's is compared with, sorted by the keys of their models.

    All others, if they are at most ``most``. Of more, the models stand in a circle, in an order that depends on the
    question alone, and each is compared with its nearest neighbours, as many on either side. So a model is another's
    rival where that one is its own, and all have equally many.

    Args:
        most: The most rivals; an odd number counts as the even one below it where models are not all compared.
        baseline: Key of the model that all others are compared with; ``""`` for none.
    """
    rivals = sorted(row.rival_answers)
    if baseline and row.model != baseline:
        return tuple(rival for rival in rivals if rival.model == baseline)
    if baseline or len(rivals) <= most:
        return tuple(rivals)
    circle = sorted(
        {row.model, *(rival.model for rival in rivals)}, key=lambda model: _place(row.question or "", model)
    )
    mine = circle.index(row.model)
    near = {circle[(mine + step) % len(circle)] for far in range(1, most // 2 + 1) for step in (far, -far)}
    return tuple(rival for rival in rivals if rival.model in near)


def _place(question: str, model: str) -> bytes:
    return hashlib.sha256(f"{question}\0{model}".encode("utf-8", "surrogatepass")).digest()


@register
class Preference(JudgeEvaluator):
    """Compares two models' answers to the same case: a judge says which is better, asked in both orders.

    **Method.** The judge sees the question, the expected answers if there are any, and two answers, called first and
    second; it replies ``first``, ``second`` or ``tie``. Each pair is asked twice, with the answers in either order. A
    model wins a pair where its answer is preferred in both; any other pair is a tie, and one whose two verdicts differ
    is *inconsistent* besides. ``preference`` is the mean over the model's rivals of 1 for a win, 0.5 for a tie and 0
    for a loss; ``consistency`` the share of the pairs that both orders decide alike. ``strength`` is the chance of a
    win against an average model, fitted to the outcomes of all pairs of all models by Bradley and Terry's model, with
    an interval over cases.

    Rivals are all other models with an answer to the case, at most ``most_rivals``, or the ``baseline`` alone. The row
    of a model and that of its rival ask the same two questions, which are put to the judge once; another model that is
    added later costs only its own pairs.

    A judge that prefers whichever answer comes first, or second, in significantly many pairs is reported as a problem
    of the instrument: such pairs are ties and favour no model, but they tell nothing either.

    **Edge cases.**

    * Answers that are the same text are a tie, and nothing is asked; ``consistency`` does not count them.
    * A model without a rival that answered the case, as in a dataset of one model, is not applicable. Rivals whose host
      returned an error are left out of that case.
    * A row one of whose pairs could not be judged is unscored: without it the mean would favour models that are spared
      their hardest rival. Pairs that the rival's row has all the same count for ``strength``.
    * Retrieved contexts are not shown: each model has its own, and other evaluators ask if they support the answer.
    * Of a jury each pair has the outcome that more than half of the judges say, else it is a tie. Values and strengths
      are made of these outcomes, however the jury combines its verdicts otherwise.
    * The baseline's own row is compared with all others, which takes no further call.

    **Source.** Zheng et al. 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena",
    https://arxiv.org/abs/2306.05685, for the verdicts in both orders and their ties; Bradley and Terry 1952, "Rank
    analysis of incomplete block designs", Biometrika 39.
    """

    spec = Spec(
        id="pairwise.preference",
        name="Pairwise preference",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER, RowField.RIVAL_ANSWERS),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        metrics=(
            Metric.higher(
                "preference",
                "Share of the comparisons with other models' answers that the answer won; ties count half.",
                threshold=None,
                primary=True,
            ),
            Metric.higher(
                "consistency",
                "Share of the comparisons that the judge decided alike in both orders of the answers.",
                name="Consistency of the judge",
                threshold=None,
            ),
            Metric.higher(
                "strength",
                "Chance of a win against an average model, by Bradley and Terry's model of all pairs.",
                threshold=None,
                dataset_level=True,
            ),
        ),
        judge="llm",
        keywords=("judge", "pairwise", "comparison", "preference", "Elo", "arena", "win rate"),
        source="Zheng et al. 2023, https://arxiv.org/abs/2306.05685; Bradley and Terry 1952, Biometrika 39",
    )
    strength_metric = "strength"
    parameters = PreferenceParams
    params: PreferenceParams
    prompts = {"preference": prompt_beside(__file__, "pairwise_preference.jinja")}  # noqa: RUF012

    def pairs_to_ask(self) -> PairsToAsk:
        """Return the pairs to ask about, each in both orders."""
        return PairsToAsk(2.0, self.params.most_rivals, self.params.baseline)

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row against each of its rivals."""
        rivals = rivals_of(row, self.params.most_rivals, self.params.baseline)
        if not rivals:
            who = f"the model {self.params.baseline!r}" if self.params.baseline else "another model"
            return RowScore.not_applicable(self.row_metrics, f"There is no answer of {who} to the case.")
        found = await asyncio.gather(*(self._pair(row, rival, judge) for rival in rivals), return_exceptions=True)
        judged: list[_Judged] = []
        for pair in found:  # all pairs are judged first: what could be asked is kept for the rivals' rows
            if isinstance(pair, BaseException):
                raise pair
            judged.append(pair)
        return _score(judged)

    def settled_by_jury(self, combined: RowScore, scores: Sequence[RowScore]) -> RowScore:
        """Return a jury's score of a row: each pair has the outcome of the majority, and the values are made of these.

        Args:
            combined: The score, with its values combined and the rest from one judge.
            scores: The scores of the judges that gave one.
        """
        if combined.payload is None:
            return combined
        by_judge = [from_payload(each.payload) for each in scores]
        own = _score([_Judged(of_majority(outcomes)) for outcomes in zip(*by_judge, strict=True)])
        data = {**combined.evidence.data, **own.evidence.data}
        return replace(own, evidence=replace(own.evidence, data=data))

    async def _pair(self, row: Row, rival: RivalAnswer, judge: Judge) -> _Judged:
        own = row.actual_answer or ""
        if rival.answer == own:
            return _Judged(PairOutcome(rival.model, TIE, Order.UNASKED))

        async def ask(first: str, second: str) -> ComparedAnswers:
            return await judge.ask("preference", ComparedAnswers, first=first, second=second, **texts)

        texts: dict[str, Any] = {
            "criteria": self.params.criteria,
            "question": row.question,
            "expected_answers": row.expected_answers,
        }
        both = await asyncio.gather(ask(own, rival.answer), ask(rival.answer, own), return_exceptions=True)
        replies: list[ComparedAnswers] = []
        for reply in both:
            if isinstance(reply, BaseException):
                raise reply
            replies.append(reply)
        as_first, as_second = replies
        return _Judged(outcome(rival.model, as_first.verdict, as_second.verdict), as_first, as_second)


def _score(judged: Sequence[_Judged]) -> RowScore:
    """Return the score of a row all of whose pairs are judged."""
    outcomes = [pair.outcome for pair in judged]
    asked = [each for each in outcomes if each.asked]
    return RowScore(
        {
            "preference": sum(each.score for each in outcomes) / len(outcomes),
            "consistency": sum(each.consistent for each in asked) / len(asked)
            if asked
            else NotApplicable("All answers are the same text."),
        },
        Evidence(_message(outcomes), data={"pairs": [_as_json(pair) for pair in judged]}),
        payload=to_payload(outcomes),
    )


def _message(outcomes: Sequence[PairOutcome]) -> str:
    """Return in a sentence which rivals the answer won against, and where the order decided."""
    said = []
    for word, mine in (
        ("Better than", [each for each in outcomes if each.score > TIE]),
        ("worse than", [each for each in outcomes if each.score < TIE]),
        ("as good as", [each for each in outcomes if each.score == TIE and each.consistent]),
        ("told apart by their order only from", [each for each in outcomes if not each.consistent]),
    ):
        if mine:
            said.append(f"{word} {', '.join(each.rival for each in mine)}")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


_WORDS: Final = {1.0: "win", TIE: "tie", 0.0: "loss"}


def _as_json(pair: _Judged) -> dict[str, Any]:
    out: dict[str, Any] = {
        "rival": pair.outcome.rival,
        "outcome": _WORDS[pair.outcome.score],
        "order": pair.outcome.order.value,
    }
    if pair.as_first and pair.as_second:
        out["as_first"] = _reply(pair.as_first, {"first": "better", "second": "worse", "tie": "tie"})
        out["as_second"] = _reply(pair.as_second, {"first": "worse", "second": "better", "tie": "tie"})
    return out


def _reply(reply: ComparedAnswers, meaning: dict[Preferred, str]) -> dict[str, str]:
    return {"verdict": reply.verdict, "means": meaning[reply.verdict], "reason": reply.reason}
