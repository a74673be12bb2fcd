"""Verdicts, and their sentences: whether the candidate is worse than the baseline by more than is tolerated.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from leadline.evaluators.ground import count, listing, nouns
from leadline.tasks.compare.results import Change, MetricComparison, Outcome, SliceComparison
from leadline.tasks.ground.numbers import bound, figure, movement
from leadline.tasks.statistics.paired import PairedResult, cases_to_decide, detectable
from leadline.tasks.statistics.statistics import Judged, holm, verdict


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


MOST_NAMES: Final = 3
"""Metrics that a headline names one by one."""


def label(found: MetricComparison) -> str:
    """Return the name of a metric for people: its evaluator's, with its own where that is not the primary one."""
    metric = found.metric
    short = metric.evaluator_name.removesuffix(" Evaluator") or metric.evaluator
    return short if metric.primary or metric.name in short else f"{short}: {metric.name}"


def importance(found: MetricComparison) -> tuple[bool, bool, float, float]:
    """Return a sorting key: metrics that must hold first, then those that changed most surely, then by how much."""
    effect = found.effect or 0.0
    width = found.metric.high - found.metric.low
    scale = width if math.isfinite(width) else abs(found.baseline or 0.0) or 1.0
    p = 1.0 if found.p is None else found.p
    return found.role != "must", found.change == "none shown", p, -abs(effect) / scale


@dataclass(frozen=True, slots=True)
class Story:
    """The tested metrics of a comparison, each group by importance.

    Attributes:
        passed: Those that are not worse by more than their margins; those that are better beyond chance come first.
        broken: Those that must hold and that some cases passed and now fail, changed beyond chance or not.
        undecided: Those that these cases cannot decide, or that were measured differently.
    """

    worse: tuple[MetricComparison, ...]
    passed: tuple[MetricComparison, ...]
    broken: tuple[MetricComparison, ...]
    undecided: tuple[MetricComparison, ...]
    untested: tuple[MetricComparison, ...]


def story(metrics: Iterable[MetricComparison]) -> Story:
    """Sort the metrics of a comparison by what there is to say of them."""
    groups: dict[str, list[MetricComparison]] = {name: [] for name in Story.__dataclass_fields__}
    for found in sorted(metrics, key=importance):
        if found.role == "must" and found.passed_to_failed:
            groups["broken"].append(found)
        if found.untested:
            groups["untested"].append(found)
        elif found.verdict == "fail" or found.change == "worse":
            groups["worse"].append(found)
        elif found.verdict == "pass":
            groups["passed"].append(found)
        elif found.verdict in ("inconclusive", "incomparable"):
            groups["undecided"].append(found)
    return Story(**{name: tuple(lines) for name, lines in groups.items()})


def moved(found: MetricComparison, *, several: bool = False) -> str:
    """Return how a metric changed: "Text Matching 82.5 → 95.0 %, 6 fixed, 1 broken (better)".

    Args:
        several: Whether the comparison is of several pairs of models, so that these are named.
    """
    name = f"{label(found)} of {found.models.label}" if several else label(found)
    if found.effect is None or found.baseline is None or found.candidate is None:
        return name
    values = movement(found.baseline, found.candidate, found.metric.share)
    flips = ""
    if found.passed_to_failed or found.failed_to_passed:
        flips = f", {found.failed_to_passed or 0:,} fixed, {found.passed_to_failed or 0:,} broken"
    if not found.effect:
        word = "no difference"
    elif found.change == "none shown":
        word = f"{'better' if found.effect > 0 else 'worse'}, within chance"
    else:
        word = found.change
    return f"{name} {values}{flips} ({word})"


def broken_cases(found: MetricComparison, *, several: bool = False, most: int = MOST_NAMES) -> str:
    """Return which cases now fail a metric: "PII Leakage (1 case: secret-ferry-account)".

    Args:
        several: Whether the comparison is of several pairs of models, so that these are named.
    """
    name = f"{label(found)} of {found.models.label}" if several else label(found)
    number = found.passed_to_failed or 0
    cases = [row.where for row in found.changed_rows if row.direction == "passed_to_failed"][:most]
    listed = f": {', '.join(cases)}{' …' if number > len(cases) else ''}" if cases else ""
    return f"{name} ({count(number, 'case')}{listed})"


def worst_slices(slices: Sequence[SliceComparison], *, several: bool = False, most: int = 2) -> str:
    """Return in a sentence on how many slices the candidate is worse, and on which most surely.

    Args:
        several: Whether the comparison is of several pairs of models, so that these are named.
    """
    surely = sum(line.change == "worse" for line in slices)
    text = f"Of {len(slices):,} compared, {surely or 'none'} {'is' if surely < 2 else 'are'} worse beyond chance"
    worst = [line for line in slices if (line.effect or 0.0) < 0][:most]
    named = []
    for line in worst:
        name = f"{line.label} of {line.models.label}" if several else line.label
        values = movement(line.baseline, line.candidate, line.share)
        named.append(f"{name} {values} on {line.words} ({count(line.n, 'case')})")
    return f"{text}; worst: {'; '.join(named)}." if named else f"{text}."


def overall(metrics: Sequence[MetricComparison]) -> tuple[Outcome, str]:
    """Return the verdict over all metrics, and its reason in one sentence.

    One failed metric fails the candidate. What is inconclusive or incomparable leaves the verdict open. A metric that
    only one side measured counts neither for nor against, and the sentence says how many those are. Only tested metrics
    decide; the sentence names the most important: *must* before *should*, then what changed most.
    """
    tested = [found for found in metrics if not found.untested]
    outcome, reason = _overall(tested, several=len({found.models for found in metrics}) > 1)
    alone = len({found.metric.key for found in tested if found.verdict == "one_sided"})
    if alone:
        them = "it" if alone == 1 else "them"
        reason += f". Not counted, since only one side measured {them}: {count(alone, 'metric')}"
    return outcome, f"{reason}."


def _overall(tested: Sequence[MetricComparison], *, several: bool) -> tuple[Outcome, str]:
    by = {word: [found for found in tested if found.verdict == word] for word in ("fail", "pass", "inconclusive")}
    differently = [found for found in tested if found.verdict == "incomparable"]
    what = "comparison" if several else "metric"
    if by["fail"]:
        first, *others = sorted(by["fail"], key=importance)
        more = f"; {count(len(others), f'more {what}')} failed" if others else ""
        return "fail", f"{moved(first, several=several)}: worse by more than {margin_of(first)}, beyond chance{more}"
    if by["inconclusive"] or differently:
        changed = sorted((found for found in (*by["pass"], *by["inconclusive"]) if found.effect), key=importance)
        parts = [moved(changed[0], several=several)] if changed else []
        if by["inconclusive"]:
            all_ = count(len(by["pass"]) + len(by["inconclusive"]) + len(differently), what)
            parts.append(f"{len(by['inconclusive']):,} of {all_} cannot be told: {names(by['inconclusive'])}")
        if differently:
            parts.append(f"{count(len(differently), what)} measured differently: {names(differently)}")
        return "inconclusive", "; ".join(parts)
    if not by["pass"]:
        return "inconclusive", "Nothing could be compared"
    gains = sorted((found for found in by["pass"] if found.change == "better"), key=importance)
    text = moved(gains[0] if gains else by["pass"][0], several=several)
    if len(by["pass"]) == 1:
        return "pass", f"{text}: not worse by more than {margin_of(by['pass'][0])}"
    gain = f"; {text}" if gains else ""
    return "pass", f"None of {count(len(by['pass']), what)} is worse by more than its margin{gain}"


def names(found: Iterable[MetricComparison], *, most: int = MOST_NAMES) -> str:
    """Return the names of metrics as a list in a sentence, the most important ones first.

    Args:
        found: At least one metric.
        most: Beyond this number the last names are only counted.
    """
    return listing(dict.fromkeys(label(each) for each in sorted(found, key=importance)), most=most)


def margin_of(found: MetricComparison) -> str:
    """Return the largest tolerated worsening of a metric: "5 points" of a share, "0.05" of another."""
    margin = found.margin or 0.0
    if not found.metric.share:
        return bound(margin)
    return f"{bound(margin * 100)} {nouns(1 if margin == 0.01 else 2, 'point')}"
