"""Problems of the judges: one that changed since it was enrolled, or may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leadline.evaluators.data.row import Severity
from leadline.evaluators.ground.text import count
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.analyse.findings.instrument_problems import ACCEPT
from leadline.tasks.analyse.findings.run_view import RunView


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
