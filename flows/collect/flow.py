"""The flow that asks models under test for their answers, and writes them as a dataset."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run

from leadline.flows.collect.collection import run_collection
from leadline.flows.collect.config import CollectConfig, CollectResult
from leadline.flows.collect.prepare import targets_of
from leadline.flows.prefect.outside_requests import allowed, check_output, check_store, check_target, is_from_outside
from leadline.flows.prefect.prefect_steps import TaskSteps, finished, reporting_no_secrets
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.tasks.collect.targets import read_targets

outlast_outages()


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
    if is_from_outside():
        check_collection(config)
    return finished(reporting_no_secrets(run_collection)(config, TaskSteps(load=Path(config.suite).name)))


def check_collection(config: CollectConfig) -> None:
    """Refuse a collection that names what requests from outside may not.

    Raises:
        UsageError: It does.
    """
    rules = allowed()
    check_store(rules, config.store)
    check_output(rules, config.output)
    for file in config.targets:
        rules.check_file("targets file", file)
    own = [target for file in config.targets for target in read_targets(Path(file))]
    for target in targets_of(config):
        check_target(rules, target, own)
