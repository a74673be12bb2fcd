"""Settings and result of collecting answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import (
    ColumnMapping,
    FormatName,
    ModelName,
    NoCredentials,
    ServerAddress,
    StorePlace,
    TeamName,
)
from leadline.tasks.runs.versions import VERSION_PATTERN


class CollectConfig(FormModel):
    """Suite, models and budget of a collection."""

    suite: Annotated[str, NoCredentials, Option(metavar="SUITE")] = Field(
        min_length=1, description="File with the cases; answers in it are ignored."
    )
    models: Annotated[tuple[ModelName, ...], Option("--model", metavar="M")] = Field(
        (),
        description="Models: a key of a targets file, a LiteLLM name, an address http://… or "
        "python:package.module:function. Default: all of the targets files.",
    )
    targets: Annotated[tuple[str, ...], Option(metavar="FILE")] = Field(
        (), description="Targets files (TOML or YAML): models, HTTP endpoints and Python callables."
    )
    api_base: Annotated[ServerAddress | None, Option(metavar="URL")] = Field(
        None, description="Address of an OpenAI-compatible server with the named models."
    )
    api_key_env: Annotated[str | None, Option(metavar="NAME")] = Field(
        None, description="Name of the environment variable with their API key; never the key itself."
    )
    system: str | None = Field(None, description="Their system prompt.")
    temperature: float = Field(0.0, ge=0, le=2, description="Their sampling temperature.")
    max_tokens: int = Field(4096, ge=1, description="Their longest answer in tokens.")
    version: Annotated[str | None, Option("--model-version", metavar="V")] = Field(
        None, pattern=VERSION_PATTERN, max_length=100, description="Version of the models that state none."
    )
    max_calls: Annotated[int | None, Option(metavar="N")] = Field(
        None, ge=0, description="Calls that may be made. Default: no limit."
    )
    max_cost: Annotated[float | None, Option(metavar="USD")] = Field(
        None, ge=0, description="US dollars that may be spent. Default: no limit."
    )
    team: TeamName = None
    format: FormatName = Field("auto", description="How the suite is read.")
    map: ColumnMapping = Field({})
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None, description="The dataset to write. Default: SUITE.answers.jsonl here."
    )
    store: StorePlace = None


class CollectResult(BaseModel):
    """Outcome of a collection."""

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
    seconds: float = Field(description="Seconds from the command, or from the call, to the end.")
    errors: dict[str, int] = Field({}, description="The commonest errors with their number.")
