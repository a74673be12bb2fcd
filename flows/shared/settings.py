"""Settings that several flows share: judges, local models, the store, and where and how strictly a run is scored."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from leadline.evaluators.settings import address_without_secrets
from leadline.flows.shared.form import FormModel, OneOf, Option
from leadline.flows.shared.option_group import OptionGroup
from leadline.tasks.load.formats.registry import format_choices
from leadline.tasks.plan.trial_rows import ALL_ROWS, ALL_TURNS, AUTO, LAST_TURN, SAMPLED_TURNS
from leadline.tasks.policy.questions import Question

_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?|mps")

Gate: TypeAlias = Literal["pass", "fail", "inconclusive"]


class FailOn(StrEnum):
    """The least severity of a problem that makes the gate fail."""

    HIGH = "high"
    MEDIUM = "medium"
    NEVER = "never"


class Dispatch(StrEnum):
    """Place where chunks are scored, if it is not the address of a Dask scheduler."""

    AUTO = "auto"
    INLINE = "inline"
    WORKERS = "workers"
    DASK = "dask"


SCORING_FLOW: Final = "score-chunk"
"""Name of the scoring flow. It has a deployment for each lane that workers serve, such as ``score-chunk/cpu``."""


_SCHEDULER: Final = re.compile(r"(?:dask|tls)://(?:\[[0-9a-fA-F:]+\]|[\w.-]+):[0-9]{1,5}", re.ASCII)


def _known_dispatch(place: str) -> str:
    if place in set(Dispatch):
        return Dispatch(place)
    if not _SCHEDULER.fullmatch(place):
        raise ValueError(
            f"{place[:80]!r} is no place to score chunks; there are {', '.join(Dispatch)}, dask://HOST:PORT and "
            "tls://HOST:PORT"
        )
    return place


def is_dask(dispatch: str) -> bool:
    """Return whether chunks go to Dask: to a cluster of the run's own, or to that of the scheduler it names."""
    return dispatch == Dispatch.DASK or bool(_SCHEDULER.fullmatch(dispatch))


def _model_without_secrets(name: str) -> str:
    return address_without_secrets(name) if name.startswith(("http://", "https://")) else name


def _without_credentials(place: str | None) -> str | None:
    if place and "://" in place and "@" in urlsplit(place).netloc:
        raise ValueError("must hold no credentials: they come from the environment")
    return place


def _known_device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a device; there are auto, cpu, cuda, cuda:N (such as cuda:0) and mps")
    return name


def _known_trial_rows(rows: str) -> str:
    if rows in (ALL_ROWS, AUTO):
        return rows
    share, whole = re.fullmatch(r"0?\.[0-9]{1,6}", rows, re.ASCII), re.fullmatch(r"[1-9][0-9]{0,8}", rows, re.ASCII)
    if not whole and not (share and float(rows) > 0):
        raise ValueError(f"{rows[:20]!r} is neither {ALL_ROWS}, {AUTO}, a number such as 200, nor a share such as 0.1")
    return rows


def _known_turns(turns: str) -> str:
    drawn = re.fullmatch(rf"{SAMPLED_TURNS}[1-9][0-9]{{0,4}}", turns, re.ASCII)
    if turns not in (ALL_TURNS, LAST_TURN) and not drawn:
        raise ValueError(f"{turns[:20]!r} is neither {ALL_TURNS}, {LAST_TURN}, nor a sample such as {SAMPLED_TURNS}3")
    return turns


NoCredentials: Final = AfterValidator(_without_credentials)
"""Refuses user and password in what is, or could be taken for, an address."""

StorePlace: TypeAlias = Annotated[
    str | None,
    NoCredentials,
    Field(description="The store. Default: $LEADLINE_STORE or ./.leadline."),
]
"""Location of a store: a folder, or an address without credentials, since Prefect keeps a run's parameters."""


def _as_pairs(value: Any) -> Any:
    """Read ``FIELD=COLUMN`` as the command line gives it; several columns of one field are a list."""
    if not isinstance(value, list | tuple):
        return value
    found: dict[str, list[str]] = {}
    for text in value:
        field, equals, column = str(text).partition("=")
        if not equals or not field.strip() or not column.strip():
            raise ValueError(f"{str(text)[:80]!r} is not FIELD=COLUMN")
        found.setdefault(field.strip(), []).append(column.strip())
    return {field: columns[0] if len(columns) == 1 else columns for field, columns in found.items()}


ColumnMapping: TypeAlias = Annotated[
    dict[str, str | list[str]],
    BeforeValidator(_as_pairs),
    Option("--map", metavar="FIELD=COLUMN", group=OptionGroup.DATA, advanced=True),
    Field(
        title="Columns",
        description="Column that fills a field, where its name is not understood: expected_answer=gold. The field "
        "metadata takes columns that are none. Default: [dataset.map] of leadline.toml.",
    ),
]
ModelNaming: TypeAlias = Annotated[
    str,
    Option("--model-name", metavar="NAME", group=OptionGroup.DATA, advanced=True),
    Field(
        title="Model name",
        max_length=1000,
        description="The model whose answers name none. Default: the file's name without its date.",
    ),
]

FormatName: TypeAlias = Annotated[
    str, OneOf(format_choices, "dataset format"), Option(group=OptionGroup.DATA, advanced=True)
]
"""Name of a dataset format, or ``auto`` for the one that recognises the file."""

ServerAddress: TypeAlias = Annotated[str, AfterValidator(address_without_secrets)]
"""Address of an OpenAI-compatible server, without what could be a key, before Prefect keeps it."""

ModelName: TypeAlias = Annotated[str, AfterValidator(_model_without_secrets)]
"""A LiteLLM name, the address of an endpoint, or a Python callable, as models under test are named."""

Device: TypeAlias = Annotated[str, AfterValidator(_known_device)]
"""Name of a device; the worker that scores checks whether its machine has it."""


# The settings that evaluating a dataset and evaluating a model version have in common.
EvaluatorIds: TypeAlias = Annotated[
    tuple[str, ...],
    Option("-e", "--evaluator", metavar="ID", group=OptionGroup.MEASURED),
    Field(description="Evaluators by id, in addition to the suite."),
]
EvaluatorSuite: TypeAlias = Annotated[
    str | None,
    Option(metavar="NAME", group=OptionGroup.MEASURED),
    Field(description="Named set of evaluators. Default: what the dataset is for, unless evaluators are named by id."),
]
EvaluatorParams: TypeAlias = Annotated[
    dict[str, dict[str, Any]],
    Option("--param", metavar="ID.NAME=VALUE", group=OptionGroup.MEASURED),
    Field(description="Parameters by evaluator id; on the command line a value is JSON or a plain text."),
]
EvaluatorsDir: TypeAlias = Annotated[
    str | None,
    Option(metavar="DIR", group=OptionGroup.MEASURED, advanced=True),
    Field(description="Folder with judges of your own as YAML files."),
]
EvaluatorFiles: TypeAlias = Annotated[
    tuple[str, ...],
    Option("--evaluators", metavar="FILE", group=OptionGroup.MEASURED, advanced=True),
    Field(description="Python file with evaluators of your own, besides those that leadline.toml names."),
]
FailOnSeverity: TypeAlias = Annotated[
    FailOn,
    Option(group=OptionGroup.GATE),
    Field(
        title="Fail on",
        description="Least severity of a problem that fails the gate; the command then leaves with exit code 1.",
    ),
]
MinCoverage: TypeAlias = Annotated[
    float | None,
    Option(group=OptionGroup.GATE, rare=True),
    Field(
        ge=0,
        le=1,
        description="Share of applicable rows to be scored for the gate to be conclusive. Default: the policy's.",
    ),
]
PolicyName: TypeAlias = Annotated[
    str | None,
    Option(metavar="NAME|FILE", group=OptionGroup.GATE),
    Field(
        max_length=500,
        description="Gate policy: default, sonar, strict, or a TOML file. Default: [policy] of leadline.toml, or "
        "default.",
    ),
]
AskedQuestions: TypeAlias = Annotated[
    tuple[Question, ...],
    Option("--ask", metavar="QUESTION", group=OptionGroup.GATE, advanced=True),
    Field(
        title="Ask",
        description="Decide the gate by these questions alone: safe, right, grounded, goal, form or fast. Default: "
        "those that the policy asks, as far as the dataset can answer them.",
    ),
]
LabelSetName: TypeAlias = Annotated[
    str | None,
    Option("--labels", metavar="SET", group=OptionGroup.GATE, advanced=True),
    Field(
        max_length=100,
        description="Set of people's labels that judges are corrected by. Default: all sets of the store together.",
    ),
]
GateOn: TypeAlias = Annotated[
    Literal["policy", "judge", "corrected"],
    Option(group=OptionGroup.GATE, advanced=True),
    Field(
        title="Gate on",
        description="What decides metrics that ask a judge: its own values (judge), values corrected by people's "
        "labels (corrected), which takes a valid certificate, or what the policy says of each.",
    ),
]
Dispatching: TypeAlias = Annotated[
    str,
    NoCredentials,
    AfterValidator(_known_dispatch),
    Option(metavar="PLACE", group=OptionGroup.MACHINE),
    Field(
        description="Where chunks are scored: here (inline), on Prefect workers (workers), on those workers that are "
        "up (auto), or on Dask: a cluster of its own (dask), or a scheduler's (dask://HOST:PORT, tls://HOST:PORT)."
    ),
]
Processes: TypeAlias = Annotated[
    int | None,
    Option(metavar="N", group=OptionGroup.MACHINE, advanced=True),
    Field(ge=1, le=256, description="Processes of the cpu lane. Default: one per core."),
]


TeamName: TypeAlias = Annotated[
    str | None,
    Option(metavar="TEAM", group=OptionGroup.JUDGES, advanced=True),
    Field(
        max_length=64,
        description="Team whose monthly budget ([budgets.TEAM] of leadline.toml) calls count against. Default: "
        "$LEADLINE_TEAM, or none.",
    ),
]


class Models(FormModel):
    """Local models and text handling."""

    option_group: ClassVar[OptionGroup] = OptionGroup.MACHINE

    embedder: Annotated[str | None, NoCredentials, Option(metavar="ID|PATH|offline", advanced=True)] = Field(
        None,
        description="Embedder for every evaluator: a Hugging Face id, a directory, or 'offline'. Default: each "
        "evaluator's own where it is here, else the offline one.",
    )
    device: Annotated[Device, Option(advanced=True)] = Field(
        "auto", description="Device of local models: auto, cpu, cuda, cuda:N or mps."
    )
    precision: Annotated[Literal["auto", "float32", "float16", "bfloat16"], Option(rare=True)] = Field(
        "auto", description="Number format of models."
    )
    backend: Annotated[Literal["auto", "torch", "onnx"], Option(rare=True)] = Field(
        "auto",
        description="Engine that runs embedders and cross-encoders: auto (onnx for the offline embedder on a CPU, else "
        "torch), torch or onnx.",
    )
    allow_download: Annotated[bool, Option("--allow-download/--no-allow-download", advanced=True)] = Field(
        False, description="Fetch missing weights while scoring."
    )
    language: Annotated[str, Option(metavar="CODE", advanced=True)] = Field(
        "en", min_length=2, max_length=8, description="Language of the texts (ISO 639-1), for sentence splitting."
    )
    splitter: Annotated[Literal["auto", "punkt", "rules"], Option(rare=True)] = Field(
        "auto", description="Sentence splitter."
    )
    allow_pickle: Annotated[bool, Option(rare=True)] = Field(
        False,
        description="Load pickled weights where a model has no safetensors. They can run any code: only from authors "
        "you trust.",
    )


class JudgeAccess(FormModel):
    """Judge and budget. API keys come from the environment of the process that asks."""

    option_group: ClassVar[OptionGroup] = OptionGroup.JUDGES

    model: Annotated[str | None, NoCredentials, Option("--judge", metavar="MODEL")] = Field(
        None,
        max_length=500,
        description="Judge: a LiteLLM model name, or a judge of leadline.toml. Default: $LEADLINE_JUDGE, or the "
        "default one of leadline.toml.",
    )
    api_base: Annotated[ServerAddress | None, Option("--judge-api-base", metavar="URL", advanced=True)] = Field(
        None,
        description="Address of the judge's OpenAI-compatible server. Default: $LEADLINE_JUDGE_API_BASE, or the "
        "provider's.",
    )
    config: Annotated[str | None, Option(metavar="FILE", rare=True)] = Field(
        None, description="File with named judges. Default: leadline.toml, if there is one."
    )
    max_calls: Annotated[int | None, Option(metavar="N", advanced=True)] = Field(
        None, ge=0, description="Judge calls that the run may make. Default: no limit."
    )
    max_cost: Annotated[float | None, Option(metavar="USD")] = Field(
        None, ge=0, description="US dollars that the run may spend on judges. Default: no limit."
    )
    team: TeamName = None


class Judges(JudgeAccess):
    """Judge, trials and budget. API keys come from the environment of the process that asks."""

    trials: Annotated[int, Option(metavar="K", advanced=True)] = Field(
        1, ge=1, le=50, description="How often each row is judged."
    )
    trial_rows: Annotated[
        str,
        AfterValidator(_known_trial_rows),
        Option(metavar="all|auto|N|SHARE", advanced=True),
    ] = Field(
        "all",
        max_length=20,
        description="Which rows get the trials after the first: all, so that a row's score is the mean of its trials; "
        "or those that tell the judge's own noise (auto), a number or a share of them, which count for nothing else.",
    )
    turns: Annotated[str, AfterValidator(_known_turns), Option(metavar="all|last|sample:N", advanced=True)] = Field(
        "all",
        max_length=20,
        description="Which turns of a conversation judges are asked about: all, the last one, or a sample of N.",
    )
    canaries: Annotated[str | None, Option(metavar="FILE", rare=True)] = Field(
        None,
        description="File of rows with known verdicts; a chunk whose judge fails them is left unscored. Default: the "
        "one that leadline.toml names, if it does.",
    )
    on_drift: Annotated[Literal["stop", "warn"] | None, Option(advanced=True)] = Field(
        None,
        title="On drift",
        description="Rows are not put to an enrolled judge that has changed (stop), or they are and the report says so "
        "(warn). Default: stop where a gate was asked for (--fail-on high or medium), else warn.",
    )

    @model_validator(mode="after")
    def _repeats_need_trials(self) -> Self:
        if self.trial_rows != ALL_ROWS and self.trials < 2:
            raise ValueError(f"trial_rows = {self.trial_rows} needs at least 2 trials")
        return self
