"""What perturbing a suite is asked to do, and doing it, without Prefect: a command that takes no second."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.settings import Settings
from leadline.flows.evaluate.config import DatasetFormat, Judges, StorePlace
from leadline.flows.shared.judges import judges_of, limits_of
from leadline.flows.shared.output_files import output_file
from leadline.tasks.ledger.location import open_ledger
from leadline.tasks.load import load_dataset
from leadline.tasks.perturb.copies import SEED, Perturbed, perturb
from leadline.tasks.perturb.perturbations import recipe
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.evaluators.judge.engine.client import JudgeClient


class PerturbConfig(BaseModel):
    """Which copies to make of which cases."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    suite: str = Field(description="File with the cases; answers in it are ignored.", json_schema_extra={"position": 0})
    recipes: tuple[str, ...] = Field(
        min_length=1,
        description="What to do, such as typo:high or comma+word_swap; each gives a copy of every case.",
        json_schema_extra={"position": 1},
    )
    output: str | None = Field(
        None, description="The file to write; empty: SUITE.perturbed.jsonl.", json_schema_extra={"position": 2}
    )
    seed: int = Field(SEED, description="Of the random choices.", json_schema_extra={"position": 3})
    copies: int = Field(
        1, ge=1, le=100, description="Copies of each case by each recipe.", json_schema_extra={"position": 4}
    )
    format: DatasetFormat = Field("auto", description="How the suite is read.", json_schema_extra={"position": 5})
    store: StorePlace = Field(
        None, description="The store; empty: $LEADLINE_STORE or ./.leadline.", json_schema_extra={"position": 6}
    )
    judges: Judges = Field(
        Judges(), description="Who writes misinformation, and what it may cost.", json_schema_extra={"position": 7}
    )


def output_of(config: PerturbConfig) -> Path:
    """Return where the suite is written.

    Raises:
        UsageError: There is the suite itself, or a folder.
    """
    return output_file(config.output, f"{Path(config.suite).stem}.perturbed.jsonl", sources=[config.suite])


def asks_judge(config: PerturbConfig) -> bool:
    """Return whether one of the recipes needs a judge.

    Raises:
        UsageError: There is no such perturbation.
    """
    return any(recipe(text).asks_judge for text in config.recipes)


def make_copies(config: PerturbConfig) -> Perturbed:
    """Make the copies, without Prefect.

    Raises:
        UsageError: The request makes no sense, or nothing could be changed.
        DatasetError: The suite cannot be read.
    """
    recipes = tuple(recipe(text) for text in config.recipes)
    output = output_of(config)
    store = Store.open(config.store)
    suite = load_dataset(store, config.suite, format=config.format, cases_only=True)
    judge = _judge(config, store) if any(each.asks_judge for each in recipes) else None
    return perturb(store, suite, recipes, output, seed=config.seed, copies=config.copies, judge=judge)


def _judge(config: PerturbConfig, store: Store) -> JudgeClient | None:
    """Return the client of the default judge, ``None`` without one; what it says is kept in the ledger."""
    judges = judges_of(config.judges)
    if not judges:
        return None
    name = f"perturb-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    limits = limits_of(config.judges)
    ctx = EvalContext(Settings(judges=judges), ledger=open_ledger(store, name, limits))
    return ctx.judge_client()
