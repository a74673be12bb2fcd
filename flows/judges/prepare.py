"""Checking, enrolling and accepting judges as the settings say, in this process and without Prefect."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.paths import from_home
from leadline.evaluators.judge_client.choice import configured_judges, find_canaries, find_judges
from leadline.evaluators.settings.judge_config import JudgeConfig
from leadline.evaluators.settings.settings import Settings
from leadline.flows.judges.config import CheckJudgesConfig, CheckJudgesResult
from leadline.flows.shared.judge_access import evaluator_files_of, limits_for
from leadline.tasks.judges.drift.asking import NotChecked
from leadline.tasks.judges.drift.drift_check import check_judge
from leadline.tasks.judges.drift.enrolling import accept, enrol
from leadline.tasks.judges.drift.enrolment import Enrolment
from leadline.tasks.judges.drift.epochs import enrolled_keys, judge_key
from leadline.tasks.judges.drift.judge_standing import JudgeStanding, standing_of
from leadline.tasks.judges.drift.probes import canary_probes, probes_of_file, probes_of_run
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Store


class CheckedJudge(NamedTuple):
    """A judge and its standing after a check.

    Attributes:
        name: The judge's name.
        standing: How it stands.
        newly: Whether this check found that it changed.
        problem: Why it could not be asked, ``""`` if it could.
        asked: Whether it was asked; ``False`` where an earlier check of the day stands, or what was found before.
    """

    name: str
    standing: JudgeStanding
    newly: bool
    problem: str
    asked: bool


def judge_named(name: str, config: str | None) -> JudgeConfig:
    """Return a judge of the configuration file, or the one of a model's name, which then is the judge's.

    Args:
        config: The file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    judge = find_judges(name, None, Path(config) if config else None, os.environ)[0]
    return judge.model_copy(update={"key": name})


def check_judges(config: CheckJudgesConfig, *, anew: bool = False) -> Iterator[CheckedJudge]:
    """Check judges, each once a day, and yield how each stands.

    Args:
        config: Which judges.
        anew: Ask them again where a check of the day stands.

    Raises:
        UsageError: A judge that is named is not enrolled, or none is.
    """
    store = Store.open(config.store)
    limits = limits_for(None, None, config.team, config.config)
    now = datetime.now(UTC)
    for judge in _wanted(store, config):
        key, settings = judge_key(judge), _settings(judge, config)
        load_own_evaluators(settings)
        before = standing_of(store, key)
        problem = ""
        try:
            check_judge(store, judge, settings, now=now, part=f"{now:%H%M%S}" if anew else "", limits=limits)
        except NotChecked as error:
            problem = str(error)
        standing = standing_of(store, key)
        if standing is not None:
            newly = standing.state == "changed" and (before is None or before.state != "changed")
            asked = standing.check is not None and standing.check.at >= now.timestamp()
            yield CheckedJudge(standing.name_of(judge), standing, newly, problem, asked)


def run_checks(config: CheckJudgesConfig) -> CheckJudgesResult:
    """Check judges, each once a day.

    Args:
        config: Which judges.
    """
    found = list(check_judges(config))
    return CheckJudgesResult(
        judges={judge.name: judge.standing.to_json() for judge in found},
        changed=[judge.name for judge in found if judge.standing.state == "changed"],
        newly_changed=[judge.name for judge in found if judge.newly],
        not_checked={judge.name: judge.problem for judge in found if judge.problem},
    )


def enrol_judge(name: str, probes: str, number: int, evaluators: Sequence[str], config: CheckJudgesConfig) -> Enrolment:
    """Enrol a judge with rows of a file or a run, and canaries where there are any.

    Args:
        name: The judge.
        probes: A file, or a run.
        number: Probes wanted.
        evaluators: Only for these evaluators; all that suit when empty.
        config: Where things are.

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

    Args:
        name: The judge.
        config: Where things are.

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
