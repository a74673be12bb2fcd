"""Verdicts: whether the candidate is worse than the baseline by more than is tolerated, over all metrics together.

With the margin m >= 0, the largest tolerated worsening, a metric

* passes when its whole 95 % interval is better than -m, and the effect still is if all unscored cases had gone against
  the candidate. This is non-inferiority; since all metrics must pass together it needs no correction (Berger 1982);
* fails when its whole interval is worse than -m, the effect still is if all unscored cases had gone for the candidate,
  and the exact test of "no difference" says at the declared level that it is worse, after Holm's correction over all
  tested metrics that could fail at all: a candidate that is as good as the baseline fails on any metric no more often
  than declared;
* is inconclusive otherwise.

Source: Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982); Holm, "A simple
sequentially rejective multiple test procedure", Scand. J. Statist. 6 (1979); Tarone, "A modified Bonferroni method for
discrete data", Biometrics 46 (1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leadline.evaluators.ground import count
from leadline.tasks.compare.results import Change, Outcome
from leadline.tasks.ground.numbers import bound, figure
from leadline.tasks.statistics.paired import PairedResult, cases_to_decide, detectable, holm
from leadline.tasks.statistics.statistics import Judged, verdict


@dataclass(frozen=True, slots=True)
class VerdictQuestion:
    """One metric before it is judged: its measurement and the other values that its verdict depends on.

    With fewer than ``least`` cases not even a candidate that changed nothing could pass.
    """

    measured: PairedResult
    margin: float
    coverage: float
    if_worst: float | None
    if_best: float | None
    same_answers: bool = False
    least: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The verdict of one metric, with the values that explain it."""

    verdict: Outcome
    change: Change
    p_adjusted: float | None
    detectable: float | None
    rows_needed: int | None
    why: Literal["same answers", "interval", "missing", "corrected", "untested", ""]


def judge(questions: Sequence[VerdictQuestion], alpha: float) -> list[ChangeAnswer]:
    """Judge metrics together.

    Args:
        questions: All metrics that are tested.
        alpha: The declared chance that any metric fails although the candidate is as good as the baseline.
    """
    p_values = [question.measured.p if _can_reject(question.measured, alpha) else None for question in questions]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    level = alpha / max(1, sum(p is not None for p in p_values))
    return [
        _answer(question, None if p is None else next(adjusted), alpha, level)
        for question, p in zip(questions, p_values, strict=True)
    ]


def _can_reject(measured: PairedResult, alpha: float) -> bool:
    """Return whether so few cases that differ could give a p-value at the level at all.

    Metrics that cannot do not count in the correction (Tarone 1990): the exact tests are conditional on which cases
    differ, and k of them give a p-value of 2^(1 - k) at least.
    """
    return measured.test == "label swap" or 2.0 ** (1 - min(measured.wins + measured.losses, 100)) <= alpha


def _answer(question: VerdictQuestion, p: float | None, alpha: float, level: float) -> ChangeAnswer:
    measured = question.measured
    answer = ChangeAnswer("inconclusive", _change(measured, p, alpha), p, detectable(measured, level), None, "")
    if question.same_answers:
        return replace(answer, verdict="pass", why="same answers")
    if measured.effect is None:
        return replace(answer, why="untested")
    side = _side(question, complete=False)
    wanted = {"fail": "worse", "pass": "better"}.get(side)
    # An infinite mean may hang on a single case: it passes only if the candidate is better beyond chance.
    if wanted and answer.change != wanted and (side == "fail" or measured.interval is None):
        return replace(answer, why="untested" if p is None or measured.interval is None else "corrected")
    if wanted:
        sure = _side(question, complete=True) == side
        return replace(answer, verdict=side) if sure else replace(answer, why="missing")
    if measured.interval is None:
        return replace(answer, why="untested")
    return replace(answer, why="interval", rows_needed=cases_to_decide(measured, question.margin, level))


def _side(question: VerdictQuestion, *, complete: bool) -> Outcome:
    """Return the side of the margin that a metric is on; if complete, only one that no unscored case could change."""
    measured = question.measured
    judged = Judged(
        value=measured.effect,
        interval=measured.interval,
        if_worst=question.if_worst if complete else measured.effect,
        if_best=question.if_best if complete else measured.effect,
        coverage=question.coverage,
    )
    return verdict(judged, -question.margin, higher_is_better=True) or "inconclusive"


def _change(measured: PairedResult, p: float | None, alpha: float) -> Change:
    if p is None or p > alpha or not measured.effect:
        return "none shown"
    return "better" if measured.effect > 0 else "worse"


def sentence(question: VerdictQuestion, answer: ChangeAnswer, *, share: bool) -> str:
    """Return the reason of a metric's verdict.

    Args:
        question: The metric.
        answer: Its verdict.
        share: Whether its rows have the values 0 and 1, so that it is shown in points of a hundred.
    """
    measured, margin = question.measured, question.margin
    seen = effect_in_words(measured, share)
    limit = f"by more than {_amount(margin, share)}" if margin else "at all"
    if answer.why == "same answers":
        return f"Both sides gave the same answers to all {count(measured.n, 'case')}."
    if measured.effect is None:
        return "Infinite values in both directions have no mean."
    if answer.verdict == "pass":
        return f"{seen}: not worse {limit}."
    if answer.verdict == "fail":
        return f"{seen}: worse {limit}, beyond chance."
    if answer.why == "missing":
        return f"{seen}, but the unscored cases could change the answer: have them scored."
    if answer.why == "corrected":
        return f"{seen}, which is no more than chance after correcting for all metrics tested."
    if answer.why == "untested":
        return f"{seen}; {count(measured.n, 'case')} cannot tell."
    edge = f"the margin of {_signed(-margin, share)}" if margin else "no difference"
    if question.least and measured.groups < question.least:
        alone = " apart from perturbed copies" if measured.groups < measured.n else ""
        return f"{seen}. Too few cases ({measured.groups:,}{alone}; at least {question.least:,} needed)."
    return f"{seen}, which reaches across {edge}. {_more(measured, answer)}"


def effect_in_words(measured: PairedResult, share: bool) -> str:
    """Return an effect with its interval: "Better by 0.2 (95 % +0.1 to +0.3)".

    Args:
        measured: The measurement.
        share: Whether it is shown in points of a hundred.
    """
    effect = measured.effect or 0.0
    word = "Better by" if effect > 0 else "Worse by"
    seen = f"{word} {_amount(abs(effect), share)}" if effect else "No difference"
    if measured.interval is None:
        return seen
    low, high = (_signed(end, share) for end in (measured.interval.low, measured.interval.high))
    return f"{seen} ({100 * measured.confidence:g} % {low} to {high})"


def _more(measured: PairedResult, answer: ChangeAnswer) -> str:
    if answer.rows_needed is None:
        return "More cases alone will hardly decide it."
    return f"About {answer.rows_needed - measured.n:,} more cases would decide it."


def _amount(value: float, share: bool) -> str:
    return f"{value * 100:.3g} points" if share and math.isfinite(value) else bound(float(f"{value:.3g}"))


def _signed(value: float, share: bool) -> str:
    text = f"{value * 100:+.1f}" if share else ("+" if value > 0 else "") + figure(value)
    return text.replace("-", "\N{MINUS SIGN}")
