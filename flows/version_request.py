"""Checking the request to evaluate a model version."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.collect import CollectResult, require_target_prices
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import chosen
from leadline.flows.model_version import ModelVersionConfig, TargetChoice
from leadline.flows.shared.files import reading
from leadline.flows.shared.judge_access import limits_for
from leadline.tasks.collect import Target, check_target, find_targets, read_targets
from leadline.tasks.load import LoadedDataset, load_dataset
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.versions import versions_in
from leadline.tasks.store.store import Store

TARGETS_VARIABLE: Final = "LEADLINE_TARGETS"
TARGETS_FILE: Final = "targets.toml"


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A version that could be evaluated.

    Attributes:
        suite: The cases.
        target: The model under test; ``None`` where its answers are given.
        given: The given answers.
    """

    store: Store
    suite: LoadedDataset
    target: Target | None
    given: LoadedDataset | None


def checked_request(config: ModelVersionConfig) -> VersionRequest:
    """Check what is measured and who is asked, and load the suite and the answers that are given.

    Raises:
        UsageError: The request makes no sense, or the answers are not those of the version.
        DatasetError: A dataset was refused.
    """
    check_measured(config)
    target = None if config.answers else target_of(config)
    if target:
        check_target(target)
    store = Store.open(config.store)
    suite = load_dataset(store, config.suite, cases_only=True, **reading_of_suite(config))
    given = _given(store, config, config.answers) if config.answers else None
    return VersionRequest(store, suite, target, given)


def _given(store: Store, config: ModelVersionConfig, answers: str) -> LoadedDataset:
    """Return the answers that came with the event.

    Raises:
        UsageError: They are not those of the version.
    """
    loaded = load_dataset(store, answers, **reading_of_answers(config))
    stated = versions_in(loaded.path)
    if config.model not in stated:
        raise UsageError(
            f"{answers} has no answers of {config.model!r}.",
            hint=f"It has: {', '.join(stated)}.",
            code=ErrorCode.VERSION_ANSWERS,
        )
    if stated[config.model] not in (None, config.version):
        raise UsageError(
            f"{answers} has the answers of {config.model} {stated[config.model]}, not of {config.version}.",
            hint="Give the answers of this version.",
            code=ErrorCode.VERSION_ANSWERS,
        )
    return loaded


def target_of(config: ModelVersionConfig) -> Target:
    """Return how the model is asked, at the version.

    Raises:
        UsageError: The targets file does not have it, nothing says how it is asked, or money is limited and its price
            is unknown.
    """
    target = _target_of(config)
    limits = limits_for(config.max_calls, config.max_cost, config.judges.team, config.judges.config)
    require_target_prices([target], limits)
    return target


def _target_of(config: ModelVersionConfig) -> Target:
    choice = config.target
    file = targets_file_of(choice)
    if file:
        found = read_targets(Path(file))
        named = [target for target in found if target.key == config.model]
        if not named:
            keys = ", ".join(target.key for target in found)
            raise UsageError(
                f"{file} has no model {config.model!r}.", hint=f"It has: {keys}.", code=ErrorCode.VERSION_TARGET
            )
        return named[0].at_version(config.version, force=True)
    if not choice.model:
        raise UsageError(
            f"No target is configured for the model {config.model!r}.",
            hint=f"Name it in a targets file ({TARGETS_FILE} or {TARGETS_VARIABLE}), or give target.model.",
            code=ErrorCode.VERSION_TARGET,
        )
    (target,) = find_targets([], [choice.model], version=config.version, defaults=_defaults(choice))
    return target.model_copy(update={"key": config.model})


def targets_file_of(choice: TargetChoice) -> str | None:
    """Return the targets file that says how the model is asked: the one named, else the worker's own."""
    if choice.file or choice.model:
        return choice.file
    return os.environ.get(TARGETS_VARIABLE) or (TARGETS_FILE if Path(TARGETS_FILE).exists() else None)


def _defaults(choice: TargetChoice) -> dict[str, Any]:
    return choice.model_dump(exclude={"file", "model"})


def reading_of_suite(config: ModelVersionConfig) -> dict[str, Any]:
    """Return how the suite is read; the mapping of columns is for the answers where these are given."""
    return reading({} if config.answers else config.map)


def reading_of_answers(config: ModelVersionConfig) -> dict[str, Any]:
    """Return how the answers that came with the event are read: where they name no model, they are the model's."""
    return reading(config.map, model_name=config.model)


def evaluation_of(config: ModelVersionConfig, collected: CollectResult | None = None) -> EvaluateConfig:
    """Return what is evaluated: the answers that were collected, or those that came with the event.

    Args:
        config: The request.
        collected: The answers that were collected; ``None`` where they came with the event.
    """
    return EvaluateConfig(
        dataset=str(collected.dataset if collected else config.answers),
        suite=config.evaluator_suite,
        evaluators=config.evaluators,
        params=config.params,
        evaluators_dir=config.evaluators_dir,
        evaluator_files=config.evaluator_files,
        model_keys=(config.model,),
        map={} if collected else config.map,
        model_name="" if collected else config.model,
        models=config.models,
        judges=config.judges,
        fail_on=config.fail_on,
        policy=config.policy,
        min_coverage=config.min_coverage,
        labels=config.labels,
        gate_on=config.gate_on,
        against=NONE,  # the flow compares with the version before, by its own margins
        dispatch=config.dispatch,
        processes=config.processes,
        output=config.output,
        store=config.store,
        name=f"{config.model} {config.version}"[:200],
    )


def check_measured(config: ModelVersionConfig) -> None:
    """Refuse what could not be measured.

    Raises:
        UsageError: An evaluator, a parameter, a judge's key or a margin's evaluator is missing.
    """
    _, choice = chosen(evaluation_of(config), check_key=True)
    running = {evaluator.spec.id for evaluator in choice.evaluators}
    for metric in config.margins:
        if not any(metric == name or metric.startswith(f"{name}.") for name in running):
            raise UsageError(
                f"A margin is given for {metric}, whose evaluator does not run.",
                hint=f"Those that run: {', '.join(sorted(running))}.",
                code=ErrorCode.PLAN_UNUSED_PARAMETERS,
            )
