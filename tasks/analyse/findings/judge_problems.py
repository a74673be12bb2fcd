"""Problems of the judges: one that changed since it was enrolled, or whose verdicts depend on the answers' order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, percent
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.analyse.findings.instrument_problems import ACCEPT
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.analyse.pair_records import PositionBias, ShareOfPairs, position_bias, read_pairs


def judge_change_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each judge of the run that changed or is suspected to have, and for each sign of it."""
    for name, judge in view.judges.items():
        if judge["state"] == "changed":
            yield _problem(
                view,
                name,
                judge,
                Severity.HIGH,
                f"The judge {name} is not the one that was enrolled any more: {judge['in_words']}. "
                + _scores_of(judge),
                f"Look at what it says now, then accept the change: {ACCEPT} {name}. Rows are then judged anew, apart "
                "from those of before. An alarm says that it changed, not that it is worse: people's labels tell that.",
            )
        elif judge["state"] == "suspect":
            yield _problem(
                view,
                name,
                judge,
                Severity.MEDIUM,
                f"The judge {name} may have changed since it was enrolled: its replies to the probes leave it open. "
                f"{judge['in_words'].capitalize()}.",
                f"Check it again tomorrow: leadline judges check {name}",
            )
        for sign in judge["signs"]:
            yield _problem(
                view,
                name,
                judge,
                Severity(sign["severity"]),
                f"The judge {name} shows a sign of change beside its verdicts: {sign['text']}.",
                f"Its verdicts on the probes say whether that matters: leadline judges check {name}",
            )


def _scores_of(judge: Mapping[str, Any]) -> str:
    """Say what the scores of a judge that changed are worth."""
    if not judge["stopped"]:
        return "Its scores of this run are not to be compared with those of before."
    if judge.get("reused"):
        reused = count(judge["reused"], "score")
        return f"Rows were not put to it, but {reused} of earlier runs, reused here, may be from after the change."
    return "Rows were not put to it."


def _problem(
    view: RunView, name: str, judge: Mapping[str, Any], severity: Severity, description: str, actions: str
) -> Finding:
    return Finding(
        type="evaluation",
        kind="judge_changed",
        severity=severity,
        fault="instrument",
        description=description,
        actions=actions,
        attrs=view.attrs(judge=name, judge_state=judge["state"], judge_epoch=judge["epoch"]),
    )


def position_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each judge that prefers a place, or contradicts itself when answers change places.

    It is a fault of the instrument: such pairs are ties, and no model's.
    """
    for evaluator_id in view.evaluators:
        if not view.compares_models(evaluator_id):
            continue
        found = position_bias(read_pairs(view.connection, evaluator_id))
        if found is not None and (found.preferred or found.contradicts):
            yield _position_problem(view, evaluator_id, found)


def _position_problem(view: RunView, evaluator_id: int, found: PositionBias) -> Finding:
    name, pairs = view.evaluator_name(evaluator_id), count(round(found.asked), "pair")
    changed = f"{_number(found.first + found.second + found.mixed)} got another verdict when the answers changed places"
    if found.preferred:
        what = f"The judge of {name} prefers whichever answer comes {found.preferred}"
        favoured = (found.first, found.second) if found.preferred == "first" else (found.second, found.first)
        decided = (
            f": in {_number(favoured[0])} that answer was preferred both times, in {_number(favoured[1])} the other"
        )
        sure = f"The difference is {_interval(found.bias)} of the pairs"
    else:
        what = f"The judge of {name} contradicts itself when answers change places"
        decided = (
            f": in {_number(found.first)} the first was preferred both times, in {_number(found.second)} the second"
        )
        sure = f"The share of such pairs is {_interval(found.inconsistent)}"
    return Finding(
        type="evaluation",
        kind="position_bias" if found.preferred else "judge_inconsistent",
        severity=Severity.MEDIUM,
        fault="instrument",
        evaluator_id=evaluator_id,
        description=f"{what}. Of {pairs} of answers, {changed}{decided}. {sure}. They count as ties and so favour no "
        "model, but they tell nothing of the models either.",
        actions="Take a judge that reads both answers before it decides (a larger one, or one that reasons), or say in "
        "the parameter criteria what makes an answer better. More cases make up for the ties.",
        attrs=view.attrs(
            evaluator_id=evaluator_id,
            n_pairs=found.asked,
            n_first=found.first,
            n_second=found.second,
            n_mixed=found.mixed,
            bias=found.bias.value,
            bias_low=found.bias.low,
            bias_high=found.bias.high,
            inconsistent=found.inconsistent.value,
            inconsistent_low=found.inconsistent.low,
            inconsistent_high=found.inconsistent.high,
        ),
    )


def _number(number: float) -> str:
    return f"{number:,.4g}" if number < 10_000 else f"{number:,.0f}"


def _interval(share: ShareOfPairs) -> str:
    """Return a share with its interval, which does not hold 0, without its sign."""
    low, high = sorted((abs(share.low), abs(share.high)))
    return f"{percent(abs(share.value))} (95 % interval {percent(low)} to {percent(high)})"
