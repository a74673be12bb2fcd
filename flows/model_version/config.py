"""What collecting answers and evaluating a new model version are asked to do: the flows' parameters and answers.

The same models are the forms in the Prefect UI, the parameters of deployments, and what the command line fills in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.evaluators.judge.engine.judge_config import address_without_secrets
from leadline.flows.evaluate.config import DatasetFormat, Dispatch, FailOn, Gate, Judges, Models, StorePlace
from leadline.tasks.collect.targets import VERSION_PATTERN


def _without_secrets(model: str) -> str:
    """Refuse a model's address that could hold a key, before Prefect keeps it."""
    return address_without_secrets(model) if model.startswith(("http://", "https://")) else model


class TargetChoice(BaseModel):
    """How the model or application under test is asked. API keys come from the environment of whoever asks."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    file: str | None = Field(
        None,
        description="Targets file (TOML or YAML) with a table [[model]] of the model's key. Empty: $LEADLINE_TARGETS, "
        "targets.toml, or the fields below.",
        json_schema_extra={"position": 0},
    )
    model: str | None = Field(
        None,
        max_length=1000,
        description="LiteLLM model name such as openai/gpt-4o-mini, address http://… of an endpoint, or a callable "
        "python:package.module:function; '{{ version }}' in it is the version. Empty: what the targets file says.",
        json_schema_extra={"position": 1},
    )
    api_base: str | None = Field(
        None, description="Address of an OpenAI-compatible server.", json_schema_extra={"position": 2}
    )
    api_key_env: str | None = Field(
        None,
        description="Name of the environment variable with the API key; never the key itself.",
        json_schema_extra={"position": 3},
    )
    system: str | None = Field(None, description="System prompt.", json_schema_extra={"position": 4})
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.", json_schema_extra={"position": 5})
    max_tokens: int = Field(4096, ge=1, description="Longest answer in tokens.", json_schema_extra={"position": 6})

    @field_validator("api_base")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return None if value is None else address_without_secrets(value)

    @field_validator("model")
    @classmethod
    def _check_model(cls, value: str | None) -> str | None:
        return None if value is None else _without_secrets(value)

    @model_validator(mode="after")
    def _check_one(self) -> TargetChoice:
        if self.file and self.model:
            raise ValueError("give a targets file or a model, not both")
        return self


class CollectConfig(BaseModel):
    """Which models answer which questions, and what that may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    suite: str = Field(min_length=1, description="File with the cases; answers in it are ignored.")
    format: DatasetFormat = Field("auto", description="How the file is read.")
    targets: tuple[str, ...] = Field(
        (), description="Targets files (TOML or YAML): models, HTTP endpoints and Python callables."
    )
    models: tuple[str, ...] = Field(
        (),
        description="Models: a key of a targets file, a LiteLLM name, an address http://… or "
        "python:package.module:function. Empty: all of the targets files.",
    )
    api_base: str | None = Field(None, description="Address of an OpenAI-compatible server with the named models.")
    api_key_env: str | None = Field(
        None, description="Name of the environment variable with their API key; never the key itself."
    )
    system: str | None = Field(None, description="Their system prompt.")
    temperature: float = Field(0.0, ge=0, le=2, description="Their sampling temperature.")
    max_tokens: int = Field(4096, ge=1, description="Their longest answer in tokens.")
    version: str | None = Field(
        None, pattern=VERSION_PATTERN, max_length=100, description="Version of the models that state none."
    )
    max_calls: int | None = Field(None, ge=0, description="Calls that may be made; empty: no limit.")
    max_cost: float | None = Field(None, ge=0, description="US dollars that may be spent; empty: no limit.")
    output: str | None = Field(None, description="The dataset to write; empty: SUITE.answers.jsonl here.")
    store: StorePlace = Field(None, description="The store; empty: $LEADLINE_STORE or ./.leadline.")

    @field_validator("models")
    @classmethod
    def _check_models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_without_secrets, value))


class ModelVersionConfig(BaseModel):
    """A version of a model, the cases that it must pass, and what makes it fail.

    An event of a model registry needs to give ``model``, ``version`` and ``suite`` only, where a targets file (or
    ``answers``) says the rest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(
        min_length=1,
        max_length=200,
        description="Key of the model, as in the targets file and in reports. The same for all its versions.",
        json_schema_extra={"position": 0},
    )
    version: str = Field(
        min_length=1,
        max_length=100,
        pattern=VERSION_PATTERN,
        description="Its version: letters, digits and . _ : + @ -",
        json_schema_extra={"position": 1},
    )
    suite: str = Field(
        min_length=1,
        description="File with the cases; any dataset that Leadline reads, answers in it are ignored.",
        json_schema_extra={"position": 2},
    )
    target: TargetChoice = Field(
        TargetChoice(), description="How the model is asked.", json_schema_extra={"position": 3}
    )
    answers: str | None = Field(
        None,
        description="Dataset with the model's answers, if somebody collected them already; then nothing is asked.",
        json_schema_extra={"position": 4},
    )
    evaluator_suite: str | None = Field(
        None,
        description="Named set of evaluators; empty with no evaluators either: all that can run here.",
        json_schema_extra={"position": 5},
    )
    evaluators: tuple[str, ...] = Field(
        (), description="Evaluators by id, in addition to the suite.", json_schema_extra={"position": 6}
    )
    params: dict[str, dict[str, Any]] = Field(
        {}, description="Parameters by evaluator id.", json_schema_extra={"position": 7}
    )
    evaluators_dir: str | None = Field(
        None, description="Folder with judges of your own as YAML files.", json_schema_extra={"position": 8}
    )
    judges: Judges = Field(Judges(), description="Who judges, and what it may cost.", json_schema_extra={"position": 9})
    models: Models = Field(Models(), description="Local models and text handling.", json_schema_extra={"position": 10})
    fail_on: FailOn = Field(
        FailOn.HIGH,
        title="Fail on",
        description="Least severity of a problem that fails the gate.",
        json_schema_extra={"position": 11},
    )
    min_coverage: float = Field(
        0.95,
        ge=0,
        le=1,
        description="Share of applicable rows that must be scored for the gate to be conclusive.",
        json_schema_extra={"position": 12},
    )
    baseline: str | None = Field(
        None,
        description="What to compare with: a version of the model, a tag, or a run. Empty: the last version before "
        "this one that passed.",
        json_schema_extra={"position": 13},
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How much worse than the baseline each metric may be, as a share of its range.",
        json_schema_extra={"position": 14},
    )
    margins: dict[str, float] = Field(
        {},
        description="Margins of single metrics (evaluator.metric or evaluator), in the metric's own unit.",
        json_schema_extra={"position": 15},
    )
    max_calls: int | None = Field(
        None,
        ge=0,
        description="Calls that may be made to the model; empty: no limit.",
        json_schema_extra={"position": 16},
    )
    max_cost: float | None = Field(
        None,
        ge=0,
        description="US dollars that answers may cost; empty: no limit.",
        json_schema_extra={"position": 17},
    )
    dispatch: Dispatch = Field(
        Dispatch.AUTO, description="Where chunks are scored.", json_schema_extra={"position": 18}
    )
    processes: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Processes of the cpu lane; empty: one per core.",
        json_schema_extra={"position": 19},
    )
    again: bool = Field(
        False,
        description="Evaluate again although this version was evaluated; answers and scores are reused all the same.",
        json_schema_extra={"position": 20},
    )
    output: str | None = Field(
        None, description="Copy the results and the comparison to this folder.", json_schema_extra={"position": 21}
    )
    store: StorePlace = Field(
        None, description="The store; empty: $LEADLINE_STORE or ./.leadline.", json_schema_extra={"position": 22}
    )


Standing: TypeAlias = Literal["evaluated", "known", "in_progress"]


class CollectResult(BaseModel):
    """What was collected."""

    model_config = ConfigDict(frozen=True)

    dataset: Path = Field(description="The dataset with the answers.")
    run: str = Field(description="Under which name the ledger has the calls.")
    models: tuple[str, ...] = Field(description="Keys of the models asked.")
    cases: int = Field(description="Cases of the suite.")
    answered: int = Field(description="Rows with an answer.")
    failed: int = Field(description="Rows with an error instead.")
    truncated: int = Field(0, description="Answers that were cut off at the token limit.")
    unasked: int = Field(0, description="Rows of cases without a question.")
    calls: int = Field(description="Calls made now that were answered.")
    reused: int = Field(description="Answers that the ledger had.")
    cost_usd: float = Field(description="What the calls made now cost, as far as their price is known.")
    unknown_price: int = Field(0, description="Calls made now whose price is not known.")
    seconds: float = Field(description="Wall time.")
    errors: dict[str, int] = Field({}, description="The commonest errors with their number.")


class ModelVersionResult(BaseModel):
    """What became of a model version."""

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
