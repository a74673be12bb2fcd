"""What an evaluation is asked to do: the parameters of the flow, and its answer.

The same model is the form in the Prefect UI, the parameters of a deployment, and what the command line fills in.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from leadline.evaluators.judge.engine.judge_config import address_without_secrets
from leadline.tasks.analyse.findings.tally import in_words, tally_in_words
from leadline.tasks.load.formats.registry import format_choices


def _without_credentials(place: str | None) -> str | None:
    if place and "://" in place and "@" in urlsplit(place).netloc:
        raise ValueError("must hold no credentials: they come from the environment")
    return place


StorePlace: TypeAlias = Annotated[str | None, AfterValidator(_without_credentials)]
"""Where a store is: a folder or an address, which Prefect keeps with a run's parameters, so without credentials."""


_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?|mps")


def _a_device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no device; there are auto, cpu, cuda, cuda:N (such as cuda:0) and mps")
    return name


Device: TypeAlias = Annotated[str, AfterValidator(_a_device)]
"""How a device is spelt; whether a machine has it is for the worker to see that scores there."""


class _KnownFormat:
    """Lists the names of the dataset formats in the JSON schema, so that the form offers them."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"enum": list(format_choices())}


def _a_format(name: str) -> str:
    if name not in format_choices():
        raise ValueError(f"{name[:40]!r} is no dataset format; there are {', '.join(format_choices())}")
    return name


DatasetFormat: TypeAlias = Annotated[str, AfterValidator(_a_format), _KnownFormat()]
"""Name of a dataset format, or ``auto`` for the one that recognises the file."""


class FailOn(StrEnum):
    """The least severity of a problem that makes the gate fail."""

    HIGH = "high"
    MEDIUM = "medium"
    NEVER = "never"


class Dispatch(StrEnum):
    """Where chunks are scored."""

    AUTO = "auto"
    INLINE = "inline"
    WORKERS = "workers"


class Models(BaseModel):
    """Local models and text handling."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    embedder: str | None = Field(
        None,
        description="Embedder for every evaluator: a Hugging Face id, a directory, or 'offline'. "
        "Empty: each evaluator's own default.",
        json_schema_extra={"position": 0},
    )
    device: Device = Field("auto", description="auto, cpu, cuda, cuda:N or mps.", json_schema_extra={"position": 1})
    precision: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="Number format of models.", json_schema_extra={"position": 2}
    )
    allow_download: bool = Field(
        False, description="Fetch missing weights while scoring.", json_schema_extra={"position": 3}
    )
    language: str = Field(
        "en",
        min_length=2,
        max_length=8,
        description="Language of the texts (ISO 639-1), for sentence splitting.",
        json_schema_extra={"position": 4},
    )
    splitter: Literal["auto", "punkt", "rules"] = Field(
        "auto", description="Sentence splitter.", json_schema_extra={"position": 5}
    )
    allow_pickle: bool = Field(
        False,
        description="Load pickled weights where a model has no safetensors. They can run any code: only from authors "
        "you trust.",
        json_schema_extra={"position": 6},
    )


class Judges(BaseModel):
    """Who judges, how often, and what it may cost. API keys come from the environment of whoever asks."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str | None = Field(
        None,
        max_length=500,
        description="Judge: a LiteLLM model name, or a judge of leadline.toml. Empty: $LEADLINE_JUDGE, or the default "
        "one of leadline.toml.",
        json_schema_extra={"position": 0},
    )
    api_base: str | None = Field(
        None,
        description="Address of an OpenAI-compatible server; empty: $LEADLINE_JUDGE_API_BASE, or the provider's.",
        json_schema_extra={"position": 1},
    )
    config: str | None = Field(
        None,
        description="File with named judges; empty: leadline.toml, if there is one.",
        json_schema_extra={"position": 2},
    )
    trials: int = Field(1, ge=1, le=50, description="How often each row is judged.", json_schema_extra={"position": 3})
    max_calls: int | None = Field(
        None, ge=0, description="Judge calls that the run may make; empty: no limit.", json_schema_extra={"position": 4}
    )
    max_cost: float | None = Field(
        None,
        ge=0,
        description="US dollars that the run may spend on judges; empty: no limit.",
        json_schema_extra={"position": 5},
    )

    canaries: str | None = Field(
        None,
        description="File of rows with known verdicts; a chunk whose judge fails them is left unscored. Empty: the one "
        "that leadline.toml names, if it does.",
        json_schema_extra={"position": 6},
    )

    @field_validator("api_base")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return None if value is None else address_without_secrets(value)


class EvaluateConfig(BaseModel):
    """What to evaluate, with which evaluators, and what makes the gate fail."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    dataset: str = Field(
        description="File with the cases and the models' answers.", min_length=1, json_schema_extra={"position": 0}
    )
    format: DatasetFormat = Field(
        "auto", title="Format", description="How the file is read.", json_schema_extra={"position": 1}
    )
    suite: str | None = Field(
        None,
        description="Named set of evaluators; empty with no evaluators either: all, or without a judge all that need "
        "none.",
        json_schema_extra={"position": 2},
    )
    evaluators: tuple[str, ...] = Field(
        (), description="Evaluators by id, in addition to the suite.", json_schema_extra={"position": 3}
    )
    evaluators_dir: str | None = Field(
        None, description="Folder with judges of your own as YAML files.", json_schema_extra={"position": 15}
    )
    params: dict[str, dict[str, Any]] = Field(
        {}, description="Parameters by evaluator id.", json_schema_extra={"position": 4}
    )
    model_keys: tuple[str, ...] = Field(
        (), description="Only these models of the dataset; empty: all.", json_schema_extra={"position": 5}
    )
    models: Models = Field(Models(), description="Local models and text handling.", json_schema_extra={"position": 6})
    fail_on: FailOn = Field(
        FailOn.NEVER,
        title="Fail on",
        description="Least severity that fails the gate.",
        json_schema_extra={"position": 7},
    )
    min_coverage: float = Field(
        0.95,
        ge=0,
        le=1,
        description="Share of applicable rows that must be scored for the gate to be conclusive.",
        json_schema_extra={"position": 8},
    )
    dispatch: Dispatch = Field(
        Dispatch.AUTO,
        description="Where chunks are scored: here (inline), on workers, or on those workers that are up (auto).",
        json_schema_extra={"position": 9},
    )
    processes: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Processes of the cpu lane; empty: one per core.",
        json_schema_extra={"position": 10},
    )
    output: str | None = Field(None, description="Copy the results to this folder.", json_schema_extra={"position": 11})
    store: StorePlace = Field(
        None, description="The store; empty: $LEADLINE_STORE or ./.leadline.", json_schema_extra={"position": 12}
    )
    name: str = Field("", max_length=200, description="A name for the run.", json_schema_extra={"position": 13})
    judges: Judges = Field(
        Judges(), description="Who judges, and what it may cost.", json_schema_extra={"position": 14}
    )


Gate: TypeAlias = Literal["pass", "fail", "inconclusive"]


class EvaluateResult(BaseModel):
    """How an evaluation ended."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="Id of the run.")
    folder: Path = Field(description="Folder of the run.")
    report: Path = Field(description="The report, as HTML.")
    report_url: str = Field("", description="The report's address in the store's bucket, if it has one.")
    gate: Gate = Field(description="Whether the run is good enough for what was asked.")
    gate_reason: str = Field(description="One sentence that says why.")
    gate_counted: str = Field("", description="What the gate counted, in a few words.")
    problems: dict[str, int] = Field(description="Number of problems by severity, of models and of the instrument.")
    problems_by_fault: dict[str, dict[str, int]] = Field(
        default_factory=dict,
        description="The same apart: `model`, and `instrument` (the instrument or the data is at fault).",
    )
    scored: int = Field(description="Scores with a value, metrics of rows counted singly.")
    unscored: int = Field(description="Scores that could not be measured.")
    not_applicable: int = Field(description="Scores whose row lacks an input.")
    reused: int = Field(description="Row scores taken from the store.")
    computed: int = Field(description="Row scores computed in this run.")
    seconds: float = Field(description="Wall time of the flow.")
    judge_calls: int = Field(0, description="Judge calls made in this run.")
    judge_cost_usd: float = Field(0.0, description="What they cost, as far as their price is known.")
    judge_unknown_price: int = Field(0, description="Judge calls whose price is not known.")
    judge_made_again: int = Field(
        0, description="Judge calls made again because an earlier process was killed before their replies came."
    )

    @property
    def gate_in_words(self) -> str:
        """The gate with what it counted: "pass (counted: model problems of high severity)"."""
        return f"{self.gate} ({self.gate_counted})" if self.gate_counted else self.gate

    @property
    def problems_in_words(self) -> str:
        """The problems of models apart from those of the instrument, in one line."""
        return tally_in_words(self.problems_by_fault) if self.problems_by_fault else in_words(self.problems)
