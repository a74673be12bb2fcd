"""The flow that asks models under test for their answers, and writes them as a dataset."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from leadline.evaluators.core.text import count
from leadline.evaluators.judge.engine.budget import Limits
from leadline.flows.collect.config import CollectConfig, CollectResult
from leadline.flows.collect.prepare import output_of, targets_of
from leadline.flows.shared.reporting import report
from leadline.tasks.collect import Collected, Target
from leadline.tasks.collect import collect as ask_models
from leadline.tasks.ledger.location import open_ledger, read_ledger
from leadline.tasks.load import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store


def _flow_run_name() -> str:
    config = flow_run.parameters.get("config")
    return f"collect {Path(config.suite).stem}" if isinstance(config, CollectConfig) else "collect"


@flow(
    name="collect",
    description="Ask models for their answers to the cases of a suite, and write them as a dataset.",
    flow_run_name=_flow_run_name,
    persist_result=False,
)
def collect(config: CollectConfig) -> CollectResult:
    """Collect answers.

    Args:
        config: Which models, which cases, and what it may cost.

    Returns:
        Where the dataset is, and what became of the calls.
    """
    targets, output = targets_of(config), output_of(config)
    store = Store.open(config.store)
    suite: LoadedDataset = task(name="load", cache_policy=NO_CACHE, persist_result=False)(load_dataset)(
        store, config.suite, format=config.format, cases_only=True
    )
    limits = Limits(calls=config.max_calls, cost_usd=config.max_cost)
    return collect_loaded(store, suite, targets, output, limits)


def collect_loaded(
    store: Store, suite: LoadedDataset, targets: tuple[Target, ...], output: Path, limits: Limits
) -> CollectResult:
    """Collect the answers to a loaded suite, as one Prefect task of the flow that runs.

    Args:
        store: The store.
        suite: The cases.
        targets: The models to ask.
        output: The dataset to write.
        limits: The budget.
    """
    started = time.monotonic()
    name = f"collect-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    done: Collected = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(ask_models)(
        store,
        suite,
        targets,
        output,
        ledger=open_ledger(store, name),
        limits=limits,
        progress=lambda model, finished, total: report("collect", model, finished, total),
    )
    spent = read_ledger(store).total(name)  # replies without an answer were paid for as well
    log = get_run_logger()
    log.info("%d answers, %d errors, %d calls", done.answered, done.failed, spent.answered)
    for error, rows in done.commonest_errors().items():
        log.warning("%s an error instead of an answer: %s", count(rows, "row has", "rows have"), error)
    result = CollectResult(
        dataset=output.absolute(),
        run=name,
        models=tuple(target.key for target in targets),
        cases=done.cases,
        answered=done.answered,
        failed=done.failed,
        truncated=done.truncated,
        unasked=done.unasked,
        calls=spent.answered,
        reused=done.reused,
        cost_usd=spent.cost_usd,
        unknown_price=spent.unknown_price,
        seconds=round(time.monotonic() - started, 2),
        errors=done.commonest_errors(),
    )
    create_markdown_artifact(_summary(result), key="leadline-collect", description=f"Answers to {suite.name}")
    return result


def _summary(result: CollectResult) -> str:
    lines = [
        "| | |\n|---|---|",
        f"| Models | {', '.join(result.models)} |",
        f"| Answers | {result.answered} to {count(result.cases, 'case')}, {result.reused} of them reused |",
        f"| Errors | {result.failed} |",
        f"| Calls | {result.calls}, {result.cost_usd:.4f} USD, {result.unknown_price} of unknown price |",
        f"| Dataset | `{result.dataset}` |",
    ]
    return "\n".join(lines)
