"""The flow that makes a dataset of questions and answers from documents."""

from __future__ import annotations

from prefect import flow

from leadline.flows.generate.config import GenerateConfig, GenerateResult
from leadline.flows.generate.generation import run_generation
from leadline.flows.prefect.outside_requests import (
    allowed,
    check_judges,
    check_output,
    check_store,
    check_weights,
    is_from_outside,
)
from leadline.flows.prefect.prefect_steps import TaskSteps, finished, reporting_no_secrets
from leadline.flows.prefect.server_outage import outlast_outages

outlast_outages()


@flow(
    name="generate",
    flow_run_name="generate",
    description="Make a dataset of questions and answers from documents.",
    persist_result=False,
)
def generate(config: GenerateConfig) -> GenerateResult:
    """Generate a dataset.

    Args:
        config: Which documents, how they are cut, who is asked, and what it may cost.

    Returns:
        Where the dataset is, and what became of the calls.
    """
    if is_from_outside():
        check_generation(config)
    return finished(reporting_no_secrets(run_generation)(config, TaskSteps()))


def check_generation(config: GenerateConfig) -> None:
    """Refuse to make a dataset by a request that names what requests from outside may not.

    Raises:
        UsageError: It does.
    """
    rules = allowed()
    check_store(rules, config.store)
    check_output(rules, config.output)
    check_judges(rules, config.judges)
    check_weights(rules, config.models, {})
