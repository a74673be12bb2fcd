"""The flow for a new version of a model."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.events import emit_event
from prefect.runtime import flow_run

from leadline.flows.compare.flow import compare_runs
from leadline.flows.evaluate.flow import evaluate
from leadline.flows.model_version.config import ModelVersionConfig as ModelVersionConfig
from leadline.flows.model_version.config import ModelVersionResult
from leadline.flows.model_version.prepare import target_of, targets_file_of
from leadline.flows.model_version.version_check import links_of, run_version
from leadline.flows.prefect.outside_requests import (
    allowed,
    check_judges,
    check_measuring,
    check_store,
    check_target,
    is_from_outside,
)
from leadline.flows.prefect.prefect_steps import TaskSteps, finished, history_may_fail, reporting_no_secrets
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.settings import FailOn
from leadline.tasks.collect.targets import read_targets
from leadline.tasks.store.store import Store

outlast_outages()


def _flow_run_name() -> str:
    config = flow_run.parameters.get("config")
    return f"{config.model} {config.version}" if isinstance(config, ModelVersionConfig) else "model version"


@flow(
    name="on-model-version",
    description="Collect a new model version's answers, score them, compare them with the version before, and decide.",
    flow_run_name=_flow_run_name,
    persist_result=False,
)
def on_model_version(config: ModelVersionConfig) -> ModelVersionResult:
    """Evaluate a version of a model, once for each (model version, suite, configuration).

    Args:
        config: The version, the cases, and what makes it fail.

    Returns:
        The decision and why; of a version that was evaluated before what was found then.

    Raises:
        LeadlineError: It could not be evaluated; the next event or the same command tries again.
    """
    if is_from_outside():
        check_version(config)
    steps, id_ = TaskSteps(load=Path(config.suite).name), str(flow_run.id or "")
    check = reporting_no_secrets(run_version)
    result = check(config, steps, evaluate=steps.subflow(evaluate), compare=steps.subflow(compare_runs), flow_run=id_)
    if result.standing == "evaluated":
        with history_may_fail():
            _announce(config, result)
    return finished(result)


def _announce(config: ModelVersionConfig, result: ModelVersionResult) -> None:
    """Send the event of a gate where the comparison decided: what the run's own gate says is known by then."""
    told = "pass" if config.fail_on is FailOn.NEVER else result.gate
    if result.decision in (None, "pass", told):
        return
    links = links_of(Store.open(config.store), result)
    emit_event(
        event="leadline.gate.failed" if result.decision == "fail" else "leadline.gate.inconclusive",
        resource={
            "prefect.resource.id": f"leadline.model.{result.model}",
            "prefect.resource.name": f"{result.model} {result.version}",
        },
        payload={
            "gate": result.decision,
            "reason": result.reason,
            "report": links.get("Comparison") or links.get("Report", ""),
        },
    )


def check_version(config: ModelVersionConfig) -> None:
    """Refuse the request to evaluate a model version that names what requests from outside may not.

    Raises:
        UsageError: It does.
    """
    rules = allowed()
    check_store(rules, config.store)
    check_measuring(rules, config)
    check_judges(rules, config.judges)
    if not config.answers:
        if config.target.file:
            rules.check_file("targets file", config.target.file)
        own = None if config.target.model else targets_file_of(config.target)
        check_target(rules, target_of(config), read_targets(Path(own)) if own else ())
