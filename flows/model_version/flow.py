"""The flow for a new version of a model."""

from __future__ import annotations

from prefect import flow
from prefect.runtime import flow_run

from leadline.flows.compare.flow import compare_runs
from leadline.flows.evaluate.flow import evaluate
from leadline.flows.model_version.config import ModelVersionConfig as ModelVersionConfig
from leadline.flows.model_version.config import ModelVersionResult
from leadline.flows.model_version.version_check import run_version
from leadline.flows.shared.prefect_steps import TaskSteps, finished


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
    steps, id_ = TaskSteps(), str(flow_run.id or "")
    return finished(run_version(config, steps, evaluate=evaluate, compare=compare_runs, flow_run=id_))
