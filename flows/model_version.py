"""A new version of a model: the form of what is asked, what is checked of it, and the result.

The same models are the form in the Prefect UI, the parameters of a deployment, and the source of the command's options.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.flows.collect import CollectResult, require_target_prices
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import chosen
from leadline.flows.shared.files import reading
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.judge_access import limits_for
from leadline.flows.shared.settings import (
    ColumnMapping,
    Dispatch,
    Dispatching,
    EvaluatorFiles,
    EvaluatorIds,
    EvaluatorParams,
    EvaluatorsDir,
    EvaluatorSuite,
    FailOn,
    FailOnSeverity,
    Gate,
    GateOn,
    Judges,
    LabelSetName,
    MinCoverage,
    ModelName,
    Models,
    NoCredentials,
    PolicyName,
    Processes,
    ServerAddress,
    StorePlace,
)
from leadline.tasks.collect import Target, check_target, find_targets, read_targets
from leadline.tasks.load import LoadedDataset, load_dataset
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.versions import VERSION_PATTERN, versions_in
from leadline.tasks.store.store import Store

Standing: TypeAlias = Literal["evaluated", "known", "in_progress"]
TARGETS_VARIABLE: Final = "LEADLINE_TARGETS"
TARGETS_FILE: Final = "targets.toml"


class TargetChoice(FormModel):
    """Access to the model or application under test. API keys come from the environment of the process that asks."""

    file: Annotated[str | None, Option("--targets", metavar="FILE")] = Field(
        None,
        description="Targets file (TOML or YAML) with a table [[model]] of the model's key. Default: "
        "$LEADLINE_TARGETS, targets.toml, or what the other settings of the target say.",
    )
    model: Annotated[ModelName | None, Option("--target", metavar="M")] = Field(
        None,
        max_length=1000,
        description="LiteLLM model name such as openai/gpt-4o-mini, address http://… of an endpoint, or a callable "
        "python:package.module:function; '{{ version }}' in it is the version. Default: what the targets file says.",
    )
    api_base: Annotated[ServerAddress | None, Option(metavar="URL")] = Field(
        None, description="Address of an OpenAI-compatible server."
    )
    api_key_env: Annotated[str | None, Option(metavar="NAME")] = Field(
        None, description="Name of the environment variable with the API key; never the key itself."
    )
    system: str | None = Field(None, description="System prompt.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int = Field(4096, ge=1, description="Longest answer in tokens.")

    @model_validator(mode="after")
    def _check_one(self) -> TargetChoice:
        if self.file and self.model:
            raise ValueError("give a targets file or a model, not both")
        return self


class ModelVersionConfig(FormModel):
    """A version of a model, the cases that it must pass, and what makes it fail.

    An event of a model registry needs to give ``model``, ``version`` and ``suite`` only, where a targets file (or
    ``answers``) says the rest.
    """

    model: Annotated[str, Option(metavar="MODEL")] = Field(
        min_length=1,
        max_length=200,
        description="Key of the model, as in the targets file and in reports. The same for all its versions.",
    )
    version: Annotated[str, Option(metavar="VERSION")] = Field(
        min_length=1,
        max_length=100,
        pattern=VERSION_PATTERN,
        description="Its version: letters, digits and . _ : + @ -",
    )
    suite: Annotated[str, NoCredentials, Option(metavar="SUITE")] = Field(
        min_length=1,
        description="File with the cases; any dataset that Leadline reads, answers in it are ignored.",
    )
    target: TargetChoice = Field(TargetChoice(), description="How the model is asked.")
    answers: Annotated[str | None, NoCredentials, Option(metavar="FILE")] = Field(
        None,
        description="Dataset with the model's answers, if somebody collected them already; then nothing is asked.",
    )
    map: ColumnMapping = Field({})
    evaluator_suite: EvaluatorSuite = None
    evaluators: EvaluatorIds = ()
    params: EvaluatorParams = Field({})
    evaluators_dir: EvaluatorsDir = None
    evaluator_files: EvaluatorFiles = ()
    judges: Judges = Field(Judges(), description="Who judges, and what it may cost.")
    models: Models = Field(Models(), description="Local models and text handling.")
    fail_on: FailOnSeverity = FailOn.HIGH
    policy: PolicyName = None
    min_coverage: MinCoverage = None
    labels: LabelSetName = None
    gate_on: GateOn = "policy"
    baseline: Annotated[str | None, Option(metavar="B")] = Field(
        None,
        description="What to compare with: a version of the model, a tag, or a run. Default: the last version before "
        "this one that passed.",
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How much worse than the baseline each metric may be, as a share of its range.",
    )
    margins: dict[str, float] = Field(
        {},
        description="Margins of single metrics (evaluator.metric or evaluator), in the metric's own unit.",
    )
    max_calls: int | None = Field(
        None,
        ge=0,
        description="Calls that may be made to the model. Default: no limit.",
    )
    max_cost: float | None = Field(
        None,
        ge=0,
        description="US dollars that answers may cost. Default: no limit.",
    )
    dispatch: Dispatching = Dispatch.AUTO
    processes: Processes = None
    again: bool = Field(
        False,
        description="Evaluate again although this version was evaluated; answers and scores are reused all the same.",
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="DIR")] = Field(
        None, description="Copy the results and the comparison to this folder."
    )
    store: StorePlace = None


class ModelVersionResult(BaseModel):
    """Outcome for a model version."""

    model_config = ConfigDict(frozen=True)

    model: str = Field(description="Key of the model.")
    version: str = Field(description="Its version.")
    standing: Standing = Field(
        description="evaluated now; known: it had been before; in_progress: another process is at it."
    )
    decision: Gate | None = Field(None, description="pass, fail or inconclusive; none while in progress.")
    reason: str = Field("", description="One sentence that says why.")
    run: str | None = Field(None, description="Id of the run.")
    dataset: Path | None = Field(None, description="The answers.")
    report: Path | None = Field(None, description="The run's report, as HTML.")
    gate: Gate | None = Field(None, description="What the run's gate says by itself.")
    baseline: str | None = Field(None, description="The version that it was compared with; none for a first version.")
    baseline_run: str | None = Field(None, description="That version's run.")
    comparison: Gate | None = Field(None, description="What the comparison says by itself.")
    comparison_report: Path | None = Field(None, description="The comparison's report, as HTML.")
    asked: int = Field(0, description="Answers that the model under test was asked for now.")
    failed: int = Field(0, description="Cases for which its host returned an error instead of an answer.")


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
