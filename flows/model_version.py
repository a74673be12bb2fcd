"""A new version of a model: the form of what is asked, and the result.

The same models are the form in the Prefect UI, the parameters of a deployment, and the source of the command's options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.flows.shared.form import FormModel, Option
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
from leadline.tasks.runs.versions import VERSION_PATTERN


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
        min_length=1, description="File with the cases; any dataset that Leadline reads, answers in it are ignored."
    )
    target: TargetChoice = Field(TargetChoice(), description="How the model is asked.")
    answers: Annotated[str | None, NoCredentials, Option(metavar="FILE")] = Field(
        None, description="Dataset with the model's answers, if somebody collected them already; then nothing is asked."
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
        0.05, ge=0, le=1, description="How much worse than the baseline each metric may be, as a share of its range."
    )
    margins: dict[str, float] = Field(
        {}, description="Margins of single metrics (evaluator.metric or evaluator), in the metric's own unit."
    )
    max_calls: int | None = Field(None, ge=0, description="Calls that may be made to the model. Default: no limit.")
    max_cost: float | None = Field(None, ge=0, description="US dollars that answers may cost. Default: no limit.")
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


Standing: TypeAlias = Literal["evaluated", "known", "in_progress"]


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
