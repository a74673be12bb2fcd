"""The judges of a flow: their configuration, their budget, and the event that one is not what was enrolled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.judge_client.budget import Limits, team_budget
from leadline.evaluators.judge_client.choice import find_canaries, find_judges
from leadline.evaluators.models.weights import absolute
from leadline.evaluators.settings import JudgeConfig, JuryConfig
from leadline.flows.shared.settings import JudgeAccess, Judges


def judges_of(config: JudgeAccess) -> tuple[JudgeConfig, ...]:
    """Return the judges that can be asked, the default one first; the folder of a local one with its whole path.

    Raises:
        UsageError: The configuration is broken.
    """
    found = find_judges(config.model, config.api_base, Path(config.config) if config.config else None, os.environ)
    return tuple(_with_whole_paths(judge) for judge in found)


def _with_whole_paths(judge: JudgeConfig) -> JudgeConfig:
    """Return a judge with the whole path of its folder of weights; so are the judges of a jury."""
    if isinstance(judge, JuryConfig):
        return judge.model_copy(update={"members": tuple(map(_with_whole_paths, judge.members))})
    return judge.model_copy(update={"model": absolute(judge.model)}) if judge.kind == "local" else judge


def canaries_of(config: Judges) -> str | None:
    """Return the file of canaries: the one given, else the one that ``leadline.toml`` names.

    Raises:
        UsageError: The configuration is broken.
    """
    return config.canaries or find_canaries(Path(config.config) if config.config else None)


def limits_of(config: JudgeAccess) -> Limits:
    """Return what the run may spend on judges, and the monthly budget of its team.

    Raises:
        UsageError: There is no budget for its team.
    """
    return limits_for(config.max_calls, config.max_cost, config.team, config.config)


def limits_for(max_calls: int | None, max_cost: float | None, team: str | None, file: str | None = None) -> Limits:
    """Return what calls to judges or models may cost.

    Args:
        max_cost: US dollars of the run.
        team: Its team; else ``$LEADLINE_TEAM``.
        file: The configuration file with the teams' budgets; by default ``leadline.toml`` here.

    Raises:
        UsageError: There is no budget for the team.
    """
    return Limits(max_calls, max_cost, team_budget(team, Path(file) if file else None, os.environ))


JUDGE_CHANGED: Final = "leadline.judge.changed"


def judge_changed(name: str, standing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event ``leadline.judge.changed``: its name, whom it is about and what it says."""
    return {
        "event": JUDGE_CHANGED,
        "resource": {"prefect.resource.id": f"leadline.judge.{standing['key']}", "prefect.resource.name": name},
        "payload": {
            "judge": name,
            "model": standing["model"],
            "epoch": standing["epoch"],
            "reason": standing["in_words"],
            "signs": [sign["text"] for sign in standing["signs"]],
            "accept": f"leadline judges accept {name}",
        },
    }
