"""A comparison in sentences: its verdict over all metrics, and what is worse, better and undecided.

Only tested metrics decide. Among those the most important comes first: *must* before *should*, then what changed most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.ground import count, listing, nouns
from leadline.tasks.compare.results import MetricComparison, Outcome, SliceComparison
from leadline.tasks.ground.numbers import bound, movement

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
        worse: Those that are worse beyond chance.
        passed: Those that are not worse by more than their margins; those that are better beyond chance come first.
        broken: Those that must hold and that some cases passed and now fail, changed beyond chance or not.
        undecided: Those that these cases cannot decide, or that were measured differently.
        untested: Metrics that are shown and not tested.
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
        most: Cases that are named.
    """
    name = f"{label(found)} of {found.models.label}" if several else label(found)
    number = found.passed_to_failed or 0
    cases = [row.case for row in found.changed_rows if row.direction == "passed_to_failed"][:most]
    listed = f": {', '.join(cases)}{' …' if number > len(cases) else ''}" if cases else ""
    return f"{name} ({count(number, 'case')}{listed})"


def worst_slices(slices: Sequence[SliceComparison], *, several: bool = False, most: int = 2) -> str:
    """Return in a sentence on how many slices the candidate is worse, and on which most surely.

    Args:
        slices: The slices, worst first.
        several: Whether the comparison is of several pairs of models, so that these are named.
        most: Slices that are named.
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
    only one side measured counts neither for nor against, and the sentence says how many those are.
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
