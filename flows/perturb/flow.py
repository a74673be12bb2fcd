"""The flow that makes perturbed copies of a suite's cases."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run

from leadline.flows.perturb.config import PerturbConfig
from leadline.flows.perturb.prepare import make_copies, output_of
from leadline.flows.prefect.outside_requests import allowed, check_judges, check_output, check_store, is_from_outside
from leadline.flows.prefect.prefect_steps import TaskSteps
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.tasks.perturb.copies import Perturbed

outlast_outages()


def _flow_run_name() -> str:
    config = flow_run.parameters.get("config")
    return f"perturb {Path(config.suite).stem}" if isinstance(config, PerturbConfig) else "perturb"


@flow(
    name="perturb",
    description="Make perturbed copies of a suite's cases.",
    flow_run_name=_flow_run_name,
    persist_result=False,
)
def perturb(config: PerturbConfig) -> str:
    """Make perturbed copies.

    Args:
        config: Which copies of which cases.

    Returns:
        Where the suite with the copies is.
    """
    if is_from_outside():
        check_perturbation(config)
    steps = TaskSteps(perturb=Path(config.suite).name)
    done: Perturbed = steps.step("perturb", make_copies, config)
    steps.log.info("%d copies of %d cases", done.copies.total(), done.cases)
    for message, count in done.failed.items():
        steps.log.warning("%d copies were not written: %s", count, message)
    return str(output_of(config).absolute())


def check_perturbation(config: PerturbConfig) -> None:
    """Refuse to make a dataset by a request that names what requests from outside may not.

    Raises:
        UsageError: It does.
    """
    rules = allowed()
    check_store(rules, config.store)
    check_output(rules, config.output)
    check_judges(rules, config.judges)
