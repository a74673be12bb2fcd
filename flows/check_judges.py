"""Checking judges: whether they are still the ones that were enrolled; enrolling them, and accepting a change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.choice import configured_judges, evaluator_files_of, find_canaries, find_judges
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.flows.prefect.outside_requests import Allowed
from leadline.flows.prefect.outside_requests import check_judges as check_allowed
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps
from leadline.flows.shared.judge_access import judge_changed, limits_for
from leadline.flows.shared.settings import EvaluatorFiles, EvaluatorsDir, JudgeAccess, StorePlace, TeamName
from leadline.tasks.judges.drift.drift_check import check_judge
from leadline.tasks.judges.drift.enrolment import Enrolment, NotChecked, accept, enrol
from leadline.tasks.judges.drift.epochs import enrolled_keys, judge_key
from leadline.tasks.judges.drift.judge_standing import JudgeStanding, standing_of
from leadline.tasks.judges.drift.probes import canary_probes, probes_of_file, probes_of_run
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Store


class CheckJudgesConfig(FormModel):
    """Judges to check."""

    judges: Annotated[tuple[str, ...], Option("--judge", metavar="NAME")] = Field(
        (), description="Judges of leadline.toml by name. Default: all that are enrolled."
    )
    config: Annotated[str | None, Option(metavar="FILE")] = Field(
        None, description="File with named judges. Default: leadline.toml, if there is one."
    )
    evaluators_dir: EvaluatorsDir = None
    evaluator_files: EvaluatorFiles = ()
    team: TeamName = None
    store: StorePlace = None


class CheckJudgesResult(BaseModel):
    """Outcome of a check of judges."""

    model_config = ConfigDict(frozen=True)

    judges: dict[str, dict[str, Any]] = Field(description="How each judge stands, by name.")
    changed: list[str] = Field(description="Judges that have changed since they were enrolled.")
    newly_changed: list[str] = Field(description="Those of them that this check found to have.")
    not_checked: dict[str, str] = Field(description="Judges that could not be asked, each with the reason.")


class CheckedJudge(NamedTuple):
    """A judge and its standing after a check.

    Attributes:
        newly: Whether this check found that it changed.
        problem: Why it could not be asked, ``""`` if it could.
        asked: Whether it was asked; ``False`` where an earlier check of the day stands, or what was found before.
    """

    name: str
    standing: JudgeStanding
    newly: bool
    problem: str
    asked: bool


@dataclass(frozen=True, slots=True)
class WantedJudges:
    """Judges that are to be checked."""

    config: CheckJudgesConfig
    store: Store
    judges: Sequence[JudgeConfig]
    limits: Limits

    def checked(self, *, anew: bool = False) -> Iterator[CheckedJudge]:
        """Check the judges, each once a day, and yield how each stands.

        Args:
            anew: Ask them again where a check of the day stands.
        """
        store, now = self.store, datetime.now(UTC)
        for judge in self.judges:
            key, settings = judge_key(judge), _settings(judge, self.config)
            load_own_evaluators(settings)
            before = standing_of(store, key)
            problem = ""
            try:
                check_judge(store, judge, settings, now=now, part=f"{now:%H%M%S}" if anew else "", limits=self.limits)
            except NotChecked as error:
                problem = str(error)
            standing = standing_of(store, key)
            if standing is not None:
                newly = standing.state == "changed" and (before is None or before.state != "changed")
                asked = standing.check is not None and standing.check.at >= now.timestamp()
                yield CheckedJudge(standing.name_of(judge), standing, newly, problem, asked)


class CheckJudges(Job[CheckJudgesConfig, WantedJudges, JobSteps, CheckJudgesResult]):
    """Ask enrolled judges about their probes, and say whether one has changed."""

    name = "check-judges"
    Config = CheckJudgesConfig

    def check(self, config: CheckJudgesConfig) -> WantedJudges:
        """Find the judges.

        Raises:
            UsageError: A judge that is named is not enrolled, or none is.
        """
        store = Store.open(config.store)
        limits = limits_for(None, None, config.team, config.config)
        return WantedJudges(config, store, _wanted(store, config), limits)

    def run(self, config: CheckJudgesConfig, checked: WantedJudges, steps: JobSteps) -> CheckJudgesResult:
        """Check judges, each once a day.

        Args:
            config: Which judges.
        """
        found = steps.step("check judges", lambda: list(checked.checked()))
        lines = [
            {
                "judge": judge.name,
                "state": judge.standing.state,
                "epoch": judge.standing.epoch,
                "found": judge.problem or judge.standing.in_words(),
            }
            for judge in found
        ]
        steps.table("leadline-judges", lines, "Whether each judge is still the one that was enrolled")
        for judge in found:
            if judge.newly:
                steps.emit(**judge_changed(judge.name, judge.standing.to_json()))
        return CheckJudgesResult(
            judges={judge.name: judge.standing.to_json() for judge in found},
            changed=[judge.name for judge in found if judge.standing.state == "changed"],
            newly_changed=[judge.name for judge in found if judge.newly],
            not_checked={judge.name: judge.problem for judge in found if judge.problem},
        )

    def check_outside(self, config: CheckJudgesConfig, rules: Allowed) -> None:
        """Refuse judges, and files that name them, which requests from outside may not name."""
        for name in config.judges or (None,):
            check_allowed(rules, JudgeAccess(model=name, config=config.config))


def judge_named(name: str, config: str | None) -> JudgeConfig:
    """Return a judge of the configuration file, or the one of a model's name, which then is the judge's.

    Args:
        config: The file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    judge = find_judges(name, None, Path(config) if config else None, os.environ)[0]
    return judge.model_copy(update={"key": name})


def enrol_judge(name: str, probes: str, number: int, evaluators: Sequence[str], config: CheckJudgesConfig) -> Enrolment:
    """Enrol a judge with rows of a file or a run, and canaries where there are any.

    Args:
        probes: A file, or a run.
        evaluators: Only for these evaluators; all that suit when empty.

    Raises:
        UsageError: No row suits.
        NotChecked: The judge does not answer.
    """
    store, judge = Store.open(config.store), judge_named(name, config.config)
    settings = _settings(judge, config)
    load_own_evaluators(settings)
    if from_home(probes).is_file():
        metrics, rows = probes_of_file(store, probes, judge, settings, number, evaluators)
    else:
        try:
            run = find_run(store, probes)
        except UsageError as error:
            if error.code is not ErrorCode.STORE_NO_RUN:
                raise
            raise UsageError(
                f"There is neither a file nor a run {probes!r}.",
                hint="--probes takes a dataset, or a run of the store: leadline store runs",
                code=error.code,
            ) from None
        metrics, rows = probes_of_run(store, run, judge, number, evaluators)
    canaries = find_canaries(Path(config.config) if config.config else None)
    if canaries:
        rows = [*rows, *canary_probes(store, canaries, metrics)]
    limits = limits_for(None, None, config.team, config.config)
    return enrol(store, judge, settings, metrics, rows, limits=limits)


def accept_judge(name: str, config: CheckJudgesConfig) -> Enrolment:
    """Accept that a judge changed, and enrol it as it is now.

    Raises:
        UsageError: It is not enrolled.
        NotChecked: It does not answer.
    """
    store, judge = Store.open(config.store), judge_named(name, config.config)
    settings = _settings(judge, config)
    load_own_evaluators(settings)
    return accept(store, judge, settings, limits=limits_for(None, None, config.team, config.config))


def _wanted(store: Store, config: CheckJudgesConfig) -> list[JudgeConfig]:
    """Return the judges to check."""
    if config.judges:
        return [judge_named(name, config.config) for name in config.judges]
    known = set(enrolled_keys(store))
    every = configured_judges(Path(config.config) if config.config else None, os.environ)
    found = {judge_key(judge): judge for judge in every if judge_key(judge) in known}
    if not found:
        raise UsageError(
            f"No judge of {config.config or 'leadline.toml'} is enrolled in the store {store.location}.",
            hint="Enrol one: leadline judges enrol JUDGE --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    return list(found.values())


def _settings(judge: JudgeConfig, config: CheckJudgesConfig) -> Settings:
    """Return settings in which nothing but the judge and the user's own evaluators differs from the default."""
    own = from_home(config.evaluators_dir).absolute() if config.evaluators_dir else None
    return Settings(
        judges=(judge,),
        evaluators_dir=str(own) if own else None,
        evaluator_files=evaluator_files_of(config.evaluator_files, config.config),
    )
