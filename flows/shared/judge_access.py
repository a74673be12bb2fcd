"""The judges of a flow: their configuration, their budget, and the retries of their chunks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Final

from leadline.evaluators.ground import from_home
from leadline.evaluators.judge_client.budget import Limits, team_budget
from leadline.evaluators.judge_client.choice import find_canaries, find_evaluator_files, find_judges
from leadline.evaluators.models.weights import absolute
from leadline.evaluators.settings import JudgeConfig, JuryConfig
from leadline.flows.shared.settings import JudgeAccess, Judges
from leadline.tasks.score.chunk import ChunkResult, JudgeDown


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


def evaluator_files_of(files: Sequence[str], config: str | None) -> tuple[str, ...]:
    """Return the absolute paths of the Python files with the user's own evaluators, those of leadline.toml included.

    Args:
        files: Files that were named for the run.
        config: The configuration file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The configuration file is broken.
    """
    named = (*files, *find_evaluator_files(Path(config) if config else None))
    return tuple(dict.fromkeys(str(from_home(file).absolute()) for file in named))


def limits_of(config: JudgeAccess) -> Limits:
    """Return what the run may spend on judges, and the monthly budget of its team.

    Raises:
        UsageError: There is no budget for its team.
    """
    return limits_for(config.max_calls, config.max_cost, config.team, config.config)


def limits_for(max_calls: int | None, max_cost: float | None, team: str | None, file: str | None = None) -> Limits:
    """Return what calls to judges or models may cost.

    Args:
        max_calls: Calls of the run.
        max_cost: US dollars of the run.
        team: Its team; else ``$LEADLINE_TEAM``.
        file: The configuration file with the teams' budgets; by default ``leadline.toml`` here.

    Raises:
        UsageError: There is no budget for the team.
    """
    return Limits(max_calls, max_cost, team_budget(team, Path(file) if file else None, os.environ))


RETRY_DELAYS_S: Final = (1.0, 5.0)
"""Pauses before the further attempts of a chunk that asks no judge."""


class Retries:
    """Decides how chunks of the judge lane are tried again when the judge is down.

    A judge that is being restarted is back within the delays. Once a chunk found it down to the last, the chunks after
    it are tried only once each, so that a run with a dead judge ends soon; the first one that succeeds ends that.

    Args:
        judges: The run's judges.
    """

    def __init__(self, judges: tuple[JudgeConfig, ...]) -> None:
        pause = max((judge.down_after_s for judge in judges), default=0.0)
        self.delays = [1.25 * pause, 4 * pause]
        self._given_up = Event()

    def worth_it(self) -> bool:
        """Return whether a chunk that failed is to be tried again."""
        return not self._given_up.is_set()

    def learn(self, result: object) -> None:
        """Take note of how a chunk ended."""
        if isinstance(result, JudgeDown):
            self._given_up.set()
        elif isinstance(result, ChunkResult):
            self._given_up.clear()
