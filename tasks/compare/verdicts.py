"""Verdicts: whether the candidate is worse than the baseline by more than is tolerated, over all metrics together.

With the margin m >= 0, the largest tolerated worsening, a metric

* passes when its whole 95 % interval is better than -m, and the effect still is if all unscored cases had gone against
  the candidate. This is non-inferiority; since all metrics must pass together it needs no correction (Berger 1982);
* fails when its whole interval is worse than -m, the effect still is if all unscored cases had gone for the candidate,
  and the exact test of "no difference" says at the declared level that it is worse, after Holm's correction over all
  tested metrics: a candidate that is as good as the baseline fails on any metric no more often than declared;
* is inconclusive otherwise.

Source: Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982); Holm, "A simple
sequentially rejective multiple test procedure", Scand. J. Statist. 6 (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leadline.evaluators.core.text import count
from leadline.tasks.analyse.statistics import CONFIDENCE, Judged, verdict
from leadline.tasks.compare.paired import PairedResult, detectable, holm, rows_needed
from leadline.tasks.compare.results import Change, MetricComparison, Outcome
from leadline.tasks.publish.numbers import bound, figure


@dataclass(frozen=True, slots=True)
class Question:
    """One metric before it is judged: its measurement and the other values that its verdict depends on."""

    measured: PairedResult
    margin: float
    coverage: float
    if_worst: float | None
    if_best: float | None
    same_answers: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict of one metric, with the values that explain it."""

    verdict: Outcome
    change: Change
    p_adjusted: float | None
    detectable: float | None
    rows_needed: int | None
    why: Literal["same answers", "interval", "missing", "corrected", "untested", ""]


def judge(questions: Sequence[Question], alpha: float) -> list[Answer]:
    """Judge metrics together.

    Args:
        questions: All metrics that are tested.
        alpha: The declared chance that any metric fails although the candidate is as good as the baseline.
    """
    p_values = [question.measured.p for question in questions]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    level = alpha / max(1, sum(p is not None for p in p_values))
    return [
        _answer(question, None if p is None else next(adjusted), alpha, level)
        for question, p in zip(questions, p_values, strict=True)
    ]


def _answer(question: Question, p: float | None, alpha: float, level: float) -> Answer:
    measured = question.measured
    answer = Answer("inconclusive", _change(measured, p, alpha), p, detectable(measured, level), None, "")
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
    distance = measured.effect + question.margin
    needed = rows_needed(measured, distance, 1 - CONFIDENCE if distance > 0 else min(level, 1 - CONFIDENCE))
    return replace(answer, why="interval", rows_needed=needed)


def _side(question: Question, *, complete: bool) -> Outcome:
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


def overall(metrics: Sequence[MetricComparison]) -> tuple[Outcome, str]:
    """Return the verdict over all metrics, and its reason in one sentence.

    One failed metric fails the candidate. What is inconclusive or incomparable leaves the verdict open. A metric that
    only one side measured counts neither for nor against, and the sentence says how many those are.
    """
    outcome, reason = _overall(metrics)
    alone = len({metric.metric.key for metric in metrics if metric.verdict == "one_sided"})
    if not alone:
        return outcome, reason
    them = "it" if alone == 1 else "them"
    return outcome, f"{reason.rstrip('.')}. Not counted, since only one side measured {them}: {count(alone, 'metric')}."


def _overall(metrics: Sequence[MetricComparison]) -> tuple[Outcome, str]:
    by = {
        word: [metric for metric in metrics if metric.verdict == word]
        for word in ("fail", "inconclusive", "incomparable", "pass")
    }
    if by["fail"]:
        first = by["fail"][0]
        more = f" ({count(len(by['fail']), 'metric')} failed)" if len(by["fail"]) > 1 else ""
        return "fail", f"{first.metric.key}: {first.reason}{more}"
    open_ = by["incomparable"] + by["inconclusive"]
    if open_:
        first = open_[0]
        more = f" ({len(open_)} of {count(len(open_) + len(by['pass']), 'metric')} undecided)" if len(open_) > 1 else ""
        return "inconclusive", f"{first.metric.key}: {first.reason}{more}"
    if by["pass"]:
        return "pass", f"No worsening beyond the margins: {count(len(by['pass']), 'metric')} shown."
    return "inconclusive", "Nothing could be compared."


def sentence(question: Question, answer: Answer, *, share: bool) -> str:
    """Return the reason of a metric's verdict.

    Args:
        question: The metric.
        answer: Its verdict.
        share: Whether its rows have the values 0 and 1, so that it is shown in points of a hundred.
    """
    measured, margin = question.measured, question.margin
    seen = _seen(measured, share)
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
    return f"{seen}, which reaches across {edge}. {_more(measured, answer)}"


def _seen(measured: PairedResult, share: bool) -> str:
    effect = measured.effect or 0.0
    word = "Better by" if effect > 0 else "Worse by"
    seen = f"{word} {_amount(abs(effect), share)}" if effect else "No difference"
    if measured.interval is None:
        return seen
    low, high = (_signed(end, share) for end in (measured.interval.low, measured.interval.high))
    return f"{seen} (95 % {low} to {high})"


def _more(measured: PairedResult, answer: Answer) -> str:
    if answer.rows_needed is None:
        return "More cases alone will hardly decide it."
    return f"About {answer.rows_needed - measured.n:,} more cases would decide it if this is the true effect."


def _amount(value: float, share: bool) -> str:
    return f"{value * 100:.3g} points" if share and math.isfinite(value) else bound(float(f"{value:.3g}"))


def _signed(value: float, share: bool) -> str:
    text = f"{value * 100:+.1f}" if share else ("+" if value > 0 else "") + figure(value)
    return text.replace("-", "\N{MINUS SIGN}")
