"""Sentences about flips under perturbation: how many there are, how many the judge makes itself, and what is left."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.evaluators.ground import count, percent, signed_percent
from leadline.tasks.analyse.findings.flip_problems import CHANGED, HOW_TO_MEASURE, UNMEASURED
from leadline.tasks.db import FlipCause
from leadline.tasks.publish.views import FlipRateLine

_BEYOND = {CHANGED: "more than the judge's noise", UNMEASURED: f"{HOW_TO_MEASURE} does that"}


def flip_sentences(rate: FlipRateLine, cause: FlipCause | None = None) -> Iterator[str]:
    """Yield the sentences about a flip rate: the numbers, and for a metric that asks a judge what they say.

    Args:
        rate: A line of the table ``flip_rates``.
        cause: The line of ``flip_causes`` of the same pairs, if there is one.
    """
    flips = rate.n_passed_to_failed + rate.n_failed_to_passed
    numbers = f"{percent(rate.rate)} of {count(rate.n_pairs, 'pair')} flip"
    if not rate.word:
        yield f"{numbers} ({percent(rate.ci_low)} to {percent(rate.ci_high)})."
        return
    if rate.net is None or rate.noise is None:
        yield f"{numbers} · the judge's own noise was not measured: {_BEYOND[UNMEASURED]}."
    else:
        net = _interval(rate.net, rate.net_low, rate.net_high)
        yield f"{numbers} · judge's own noise {percent(rate.noise)} · net {net}."
        if rate.word == CHANGED:
            yield f"{CHANGED.capitalize()}: {_BEYOND[CHANGED]}."
        else:
            yield f"{rate.word.capitalize()}: up to {percent(max(0.0, rate.net_high or 0.0))} could have changed."
    if flips:
        same = f"{flips - rate.n_flips_same_answer:,} of the {flips:,} have another answer"
        if rate.net_same_answer is not None:
            ends = _interval(rate.net_same_answer, rate.net_same_low, rate.net_same_high)
            same += f"; where the answer stayed, net {ends}: what the judge makes of the changed question"
        yield f"{same}."
    if cause is not None and rate.net is not None:
        answer = _interval(cause.answer, cause.answer_low, cause.answer_high)
        judge = _interval(cause.judge, cause.judge_low, cause.judge_high)
        yield (
            f"Of the net {signed_percent(rate.net)}: {answer} since the answer changed, {judge} since the judge reads "
            "the changed question otherwise."
        )


def _interval(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" ({signed_percent(low)} to {percent(max(0.0, high))})"
    return f"{signed_percent(value)}{ends}"
