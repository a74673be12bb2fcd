"""The job of a new version of a model: its answers are collected, evaluated, compared with the version before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from leadline.evaluators.ground.text import count
from leadline.flows.job import Job, JobSteps
from leadline.flows.model_version.config import ModelVersionConfig, ModelVersionResult
from leadline.flows.model_version.prepare import VersionRequest, checked_request, target_of, targets_file_of
from leadline.flows.model_version.version_check import links_of, run_version
from leadline.flows.prefect.outside_requests import Allowed, check_target
from leadline.flows.shared.settings import FailOn
from leadline.tasks.collect.targets import read_targets


class CheckVersion(Job[ModelVersionConfig, VersionRequest, JobSteps, ModelVersionResult]):
    """Collect a new model version's answers, score them, compare them with the version before, and decide."""

    name = "on-model-version"
    Config = ModelVersionConfig
    first_step = "load"
    kept = "Interrupted. Answers and scores are kept: the same command goes on from there."

    def check(self, config: ModelVersionConfig) -> VersionRequest:
        """Check what is measured and who is asked, and load the datasets. See :func:`.prepare.checked_request`."""
        return checked_request(config)

    def run(self, config: ModelVersionConfig, checked: VersionRequest, steps: JobSteps) -> ModelVersionResult:
        """Evaluate a version of a model, once for each (model version, suite, configuration).

        Args:
            config: The version, the cases, and what makes it fail.
        """
        result = run_version(config, checked, steps)
        if result.standing == "evaluated":
            _announce(config, checked, result, steps)
        return result

    def check_outside(self, config: ModelVersionConfig, rules: Allowed) -> None:
        """Refuse a target that requests from outside may not name."""
        if not config.answers:
            if config.target.file:
                rules.check_file("targets file", config.target.file)
            own = None if config.target.model else targets_file_of(config.target)
            check_target(rules, target_of(config), read_targets(Path(own)) if own else ())

    def run_name(self, config: ModelVersionConfig) -> str:
        """Return the name of a run, which has model and version."""
        return f"{config.model} {config.version}"

    def about(self, config: ModelVersionConfig) -> Mapping[str, str]:
        """Return what is loaded."""
        return {"load": Path(config.suite).name}

    def lines(self, result: ModelVersionResult) -> Iterable[tuple[str, str]]:
        """Yield what became of a version."""
        known = " (evaluated before)" if result.standing == "known" else ""
        asked = f"{result.asked:,} asked for now" + (f", {count(result.failed, 'error')}" if result.failed else "")
        yield "Decision", f"{(result.decision or '').upper()}{known}: {result.reason}"
        yield "Version", f"{result.model} {result.version}"
        yield "Baseline", f"{result.baseline} (run {result.baseline_run})" if result.baseline else "none"
        yield "Answers", f"{asked}; {result.dataset}"
        yield "Run", str(result.run)
        yield "Report", str(result.report)
        if result.comparison_report:
            yield "Compared", str(result.comparison_report)


def _announce(config: ModelVersionConfig, request: VersionRequest, result: ModelVersionResult, steps: JobSteps) -> None:
    """Send the event of a gate where the comparison decided: what the run's own gate says is known by then."""
    told = "pass" if config.fail_on is FailOn.NEVER else result.gate
    if result.decision in (None, "pass", told):
        return
    links = links_of(request.store, result)
    steps.emit(
        "leadline.gate.failed" if result.decision == "fail" else "leadline.gate.inconclusive",
        {
            "prefect.resource.id": f"leadline.model.{result.model}",
            "prefect.resource.name": f"{result.model} {result.version}",
        },
        {
            "gate": result.decision,
            "reason": result.reason,
            "report": links.get("Comparison") or links.get("Report", ""),
        },
    )
