"""Making perturbed copies of a suite's cases, without Prefect, since it takes no second."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.settings.settings import Settings
from leadline.flows.perturb.config import PerturbConfig
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.output_files import output_file
from leadline.flows.shared.reading import reading
from leadline.tasks.ledger.location import open_ledger
from leadline.tasks.load import load_dataset
from leadline.tasks.perturb.copies import Perturbed, perturb
from leadline.tasks.perturb.perturbations import recipe
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.evaluators.judge_client.client import JudgeClient


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
    suite = load_dataset(store, config.suite, cases_only=True, **reading(config.map, format=config.format))
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
