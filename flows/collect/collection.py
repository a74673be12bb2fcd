"""A collection from its request to the dataset; the flow and the command line both run this."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from leadline.evaluators.ground.text import count
from leadline.evaluators.judge_client.budget import Limits
from leadline.flows.collect.config import CollectConfig, CollectResult
from leadline.flows.collect.prepare import limits_of_collection, output_of, targets_of
from leadline.flows.shared.plain_steps import JobSteps
from leadline.flows.shared.reading import reading
from leadline.flows.shared.reporting import report
from leadline.tasks.collect import Collected, Target
from leadline.tasks.collect import collect as ask_models
from leadline.tasks.ledger.location import open_ledger, read_ledger
from leadline.tasks.load import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store


def run_collection(config: CollectConfig, steps: JobSteps) -> CollectResult:
    """Collect answers.

    Args:
        config: Which models, which cases, and what it may cost.
        steps: How the steps are run: in this process, or as Prefect tasks.

    Returns:
        Where the dataset is, and what became of the calls.
    """
    targets, output = targets_of(config), output_of(config)
    store = Store.open(config.store)
    suite: LoadedDataset = steps.step(
        "load", load_dataset, store, config.suite, cases_only=True, **reading(config.map, format=config.format)
    )
    return collect_loaded(store, suite, targets, output, limits_of_collection(config), steps)


def collect_loaded(
    store: Store, suite: LoadedDataset, targets: tuple[Target, ...], output: Path, limits: Limits, steps: JobSteps
) -> CollectResult:
    """Collect the answers to a loaded suite, as one step.

    Args:
        suite: The cases.
        targets: The models to ask.
        output: The dataset to write.
        limits: The budget.
        steps: How the step is run.
    """
    started = time.monotonic()
    name = f"collect-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    done: Collected = steps.step(
        "collect",
        ask_models,
        store,
        suite,
        targets,
        output,
        ledger=open_ledger(store, name, Limits(team=limits.team)),  # the run's own budget is kept in this process
        limits=limits,
        progress=lambda model, finished, total: report("collect", model, finished, total),
    )
    spent = read_ledger(store).total(name)  # replies without an answer were paid for as well
    steps.log.info("%d answers, %d errors, %d calls", done.answered, done.failed, spent.answered)
    for error, rows in done.commonest_errors().items():
        steps.log.warning("%s an error instead of an answer: %s", count(rows, "row has", "rows have"), error)
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
    steps.show("leadline-collect", _summary(result), f"Answers to {suite.name}")
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
