"""What a check comes to, and what the job leaves with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.flows.evaluate.config import EvaluateResult
from leadline.plugins.ci.change_facts import ChangeFacts, decide, exit_code
from leadline.plugins.ci.config import CheckConfig
from leadline.tasks.ground.timeline import RunTime

NOTHING = ChangeFacts(
    n_cases=4, n_rows=4, models=("bot",), compared=True, note="", notes=(), worse={}, broken=(), n_broken=0, fixed=(),
    n_fixed=0, n_rejudged=0, metrics=(), untold=(), unmeasured=(), problems=(), regressions=(), calls=(),
)  # fmt: skip


def facts(**changes: Any) -> ChangeFacts:
    return replace(NOTHING, **changes)


def result(gate: str = "fail", scored: int = 4) -> EvaluateResult:
    return EvaluateResult.model_validate(
        {
            "run": "r", "folder": Path(), "report": Path("report.html"), "gate": gate, "gate_reason": "Because.",
            "problems": {}, "problems_by_fault": {}, "scored": scored, "unscored": 0, "not_applicable": 0, "reused": 0,
            "computed": 4, "time": RunTime(1.0, {}, {}),
        }
    )  # fmt: skip


def config(**settings: Any) -> CheckConfig:
    return CheckConfig.model_validate({"dataset": "d.csv"} | settings)


@pytest.mark.parametrize("gate", ["pass", "fail", "inconclusive"])
def test_the_gate_decides(gate: str) -> None:
    assert decide(config(), result(gate), facts(regressions=("high",))) == (gate, "Because.")


@pytest.mark.parametrize(
    ("fail_on", "changes", "scored", "verdict"),
    [
        ("high", {"regressions": ("high",), "worse": {"bot": "Worse."}}, 4, "fail"),
        ("high", {"regressions": ("medium",)}, 4, "pass"),
        ("medium", {"regressions": ("medium",)}, 4, "fail"),
        ("high", {}, 4, "pass"),
        ("high", {"compared": False}, 4, "pass"),
        ("high", {"compared": False, "note": "not compared with run r: no model in common"}, 4, "inconclusive"),
        ("high", {}, 0, "inconclusive"),
    ],
    ids=["worse", "medium", "fail on medium", "nothing", "no base", "no comparison", "nothing scored"],
)
def test_only_what_is_worse_can_fail_where_that_was_asked(
    fail_on: str, changes: dict[str, Any], scored: int, verdict: str
) -> None:
    asked = config(only_changes=True, fail_on=fail_on)
    assert decide(asked, result(scored=scored), facts(**changes))[0] == verdict


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({}, (0, 1, 1)),
        ({"inconclusive": "pass"}, (0, 1, 0)),
        ({"fail_on": "never"}, (0, 0, 0)),
    ],
    ids=["as it is", "inconclusive passes", "never"],
)
def test_the_job_leaves_with_what_the_settings_say(settings: dict[str, Any], codes: tuple[int, ...]) -> None:
    assert tuple(exit_code(config(**settings), verdict) for verdict in ("pass", "fail", "inconclusive")) == codes
