"""A new version of a model: collect its answers, evaluate them, compare with the version before, decide.

What is measured and who is asked is checked first. Every step keeps what it did, so that it can be killed anywhere and
started again: answers are in the ledger, scores in the store. Whose turn it is, and what came out, is kept by
:mod:`leadline.tasks.runs.versions`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError, count, from_home
from leadline.evaluators.judge_client.choice import evaluator_files_of
from leadline.flows.collect import Collection, CollectResult, require_target_prices
from leadline.flows.compare import Compare, CompareConfig, CompareResult
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import chosen
from leadline.flows.model_version import ModelVersionConfig, ModelVersionResult, TargetChoice
from leadline.flows.prefect import outside_requests as outside
from leadline.flows.prefect.report_links import comparison_link, run_link
from leadline.flows.shared.job import Job, JobSteps, reading
from leadline.flows.shared.judge_access import judges_of, limits_for
from leadline.flows.shared.settings import FailOn, Gate
from leadline.tasks.collect import Target, check_target, find_targets, read_targets
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.plan.trial_rows import ALL_ROWS
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.lookup import all_tags, find_run, set_tag
from leadline.tasks.runs.versions import (
    Claim,
    Subject,
    claim,
    file_name,
    of_version,
    previous,
    renewed,
    tag_of,
    versions_in,
)
from leadline.tasks.store.store import Store

TARGETS_VARIABLE: Final = "LEADLINE_TARGETS"
TARGETS_FILE: Final = "targets.toml"


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A version that could be evaluated.

    Attributes:
        target: The model under test; ``None`` where its answers are given.
    """

    store: Store
    suite: LoadedDataset
    target: Target | None
    given: LoadedDataset | None


def _given(store: Store, config: ModelVersionConfig, answers: str) -> LoadedDataset:
    """Return the answers that came with the event: where they name no model, they are the model's.

    Raises:
        UsageError: They are not those of the version.
    """
    loaded = load_dataset(store, answers, **reading(config.map, model_name=config.model))
    stated = versions_in(loaded.path)
    if config.model not in stated:
        raise UsageError(
            f"{answers} has no answers of {config.model!r}.",
            hint=f"It has: {', '.join(stated)}.",
            code=ErrorCode.VERSION_ANSWERS,
        )
    if stated[config.model] not in (None, config.version):
        raise UsageError(
            f"{answers} has the answers of {config.model} {stated[config.model]}, not of {config.version}.",
            hint="Give the answers of this version.",
            code=ErrorCode.VERSION_ANSWERS,
        )
    return loaded


def target_of(config: ModelVersionConfig) -> Target:
    """Return how the model is asked, at the version.

    Raises:
        UsageError: The targets file does not have it, nothing says how it is asked, or money is limited and its price
            is unknown.
    """
    target = _target_of(config)
    limits = limits_for(config.max_calls, config.max_cost, config.judges.team, config.judges.config)
    require_target_prices([target], limits)
    return target


def _target_of(config: ModelVersionConfig) -> Target:
    choice = config.target
    file = targets_file_of(choice)
    if file:
        found = read_targets(Path(file))
        named = [target for target in found if target.key == config.model]
        if not named:
            keys = ", ".join(target.key for target in found)
            raise UsageError(
                f"{file} has no model {config.model!r}.", hint=f"It has: {keys}.", code=ErrorCode.VERSION_TARGET
            )
        return named[0].at_version(config.version, force=True)
    if not choice.model:
        raise UsageError(
            f"No target is configured for the model {config.model!r}.",
            hint=f"Name it in a targets file ({TARGETS_FILE} or {TARGETS_VARIABLE}), or give target.model.",
            code=ErrorCode.VERSION_TARGET,
        )
    defaults = choice.model_dump(exclude={"file", "model"})
    (target,) = find_targets([], [choice.model], version=config.version, defaults=defaults)
    return target.model_copy(update={"key": config.model})


def targets_file_of(choice: TargetChoice) -> str | None:
    """Return the targets file that says how the model is asked: the one named, else the worker's own."""
    if choice.file or choice.model:
        return choice.file
    return os.environ.get(TARGETS_VARIABLE) or (TARGETS_FILE if Path(TARGETS_FILE).exists() else None)


def reading_of_suite(config: ModelVersionConfig) -> dict[str, Any]:
    """Return how the suite is read; the mapping of columns is for the answers where these are given."""
    return reading({} if config.answers else config.map)


def evaluation_of(config: ModelVersionConfig, collected: CollectResult | None = None) -> EvaluateConfig:
    """Return what is evaluated: the answers that were collected, or those that came with the event.

    Args:
        collected: The answers that were collected; ``None`` where they came with the event.
    """
    return EvaluateConfig(
        dataset=str(collected.dataset if collected else config.answers),
        suite=config.evaluator_suite,
        evaluators=config.evaluators,
        params=config.params,
        evaluators_dir=config.evaluators_dir,
        evaluator_files=config.evaluator_files,
        model_keys=(config.model,),
        map={} if collected else config.map,
        model_name="" if collected else config.model,
        models=config.models,
        judges=config.judges,
        fail_on=config.fail_on,
        policy=config.policy,
        min_coverage=config.min_coverage,
        labels=config.labels,
        gate_on=config.gate_on,
        against=NONE,  # the flow compares with the version before, by its own margins
        dispatch=config.dispatch,
        processes=config.processes,
        output=config.output,
        store=config.store,
        name=f"{config.model} {config.version}"[:200],
    )


def check_measured(config: ModelVersionConfig) -> None:
    """Refuse what could not be measured.

    Raises:
        UsageError: An evaluator, a parameter, a judge's key or a margin's evaluator is missing.
    """
    _, choice = chosen(evaluation_of(config), check_key=True)
    running = {evaluator.spec.id for evaluator in choice.evaluators}
    for metric in config.margins:
        if not any(metric == name or metric.startswith(f"{name}.") for name in running):
            raise UsageError(
                f"A margin is given for {metric}, whose evaluator does not run.",
                hint=f"Those that run: {', '.join(sorted(running))}.",
                code=ErrorCode.PLAN_UNUSED_PARAMETERS,
            )


_MEASURED: Final = {"evaluator_suite", "evaluators", "params", "evaluators_dir", "models"}
_DECIDED: Final = {"fail_on", "policy", "min_coverage", "labels", "gate_on", "baseline", "margin", "margins"}


def is_final(result: ModelVersionResult, unscored: int) -> bool:
    """Return whether an outcome is to be remembered; what an instrument or a host could not do is no result."""
    return result.decision != "inconclusive" or not (result.failed or unscored)


def subject_of(
    config: ModelVersionConfig, suite: LoadedDataset, target: Target | None, given: LoadedDataset | None
) -> Subject:
    """Return what is evaluated once: everything that the outcome depends on.

    Args:
        target: The model under test; ``None`` where its answers are given.
    """
    configuration = {
        "measured": {
            **config.model_dump(mode="json", include=_MEASURED),
            "own": _own_evaluators(config),
            "judges": [judge.identity() for judge in judges_of(config.judges)],
            "trials": config.judges.trials,
            **_trial_rows(config),
            "canaries": _content(config.judges.canaries),
        },
        "decided": config.model_dump(mode="json", include=_DECIDED),
        "target": target.identity() | {"reply": target.reply.model_dump(mode="json")} if target else None,
        "answers": given.digest if given else None,
    }
    return Subject(config.model, config.version, suite.name, suite.digest, configuration)


def _trial_rows(config: ModelVersionConfig) -> dict[str, str]:
    """Return which rows have several trials; nothing for all, as before there was a choice."""
    rows = config.judges.trial_rows
    return {} if rows == ALL_ROWS else {"trial_rows": rows}


def _content(file: str | None) -> str | None:
    return hashlib.sha256(from_home(file).read_bytes()).hexdigest()[:16] if file else None


def _own_evaluators(config: ModelVersionConfig) -> dict[str, str]:
    """Return the digests of the files with the user's evaluators: a changed evaluator is another configuration."""
    files = sorted(from_home(config.evaluators_dir).glob("*.y*ml")) if config.evaluators_dir else []
    files += map(Path, evaluator_files_of(config.evaluator_files, config.judges.config))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


def _decided(
    store: Store,
    config: ModelVersionConfig,
    subject: Subject,
    collected: CollectResult | None,
    run: EvaluateResult,
    steps: JobSteps,
) -> ModelVersionResult:
    """Compare with the baseline, and decide."""
    baseline, version = _baseline(store, config, subject)
    compared = steps.run_job(Compare(), _comparison(config, run, baseline)) if baseline else None
    decision, reason = decide(run, compared, version or baseline, fail_on=config.fail_on)
    if decision == "pass":
        set_tag(store, store.run(run.run), tag_of(subject))
    return ModelVersionResult(
        model=config.model,
        version=config.version,
        standing="evaluated",
        decision=decision,
        reason=reason,
        run=run.run,
        dataset=collected.dataset if collected else Path(str(config.answers)).absolute(),
        report=run.report,
        gate=run.gate,
        baseline=version or baseline,
        baseline_run=compared.baseline if compared else None,
        comparison=compared.verdict if compared else None,
        comparison_report=compared.report if compared else None,
        asked=collected.calls if collected else 0,
        failed=collected.failed if collected else 0,
    )


def _collected(
    config: ModelVersionConfig, request: VersionRequest, subject: Subject, target: Target, steps: JobSteps
) -> CollectResult:
    store, suite = request.store, request.suite
    output = subject.folder(store) / file_name(suite.name)
    limits = limits_for(config.max_calls, config.max_cost, config.judges.team, config.judges.config)
    collected = Collection(store, suite, (target,), output, limits).collected(steps)
    store.push([output])
    return collected


def _baseline(store: Store, config: ModelVersionConfig, subject: Subject) -> tuple[str | None, str | None]:
    """Return what to compare with, as ``leadline compare`` takes it, and which version that is, if it is known.

    Raises:
        UsageError: A baseline was named that does not exist.
    """
    named = config.baseline
    record = of_version(store, subject, named) if named else previous(store, subject)
    if record:
        return f"{record['run']}:{record['model']}", record["version"]
    if not named:
        return None, None
    if named.partition(":")[0] in all_tags(store):
        return f"tag:{named}", None
    find_run(store, named.partition(":")[0] if not named.startswith("tag:") else named)
    return named, None


def _comparison(config: ModelVersionConfig, run: EvaluateResult, baseline: str) -> CompareConfig:
    return CompareConfig(
        baseline=baseline,
        candidate=f"{run.run}:{config.model}",
        margin=config.margin,
        margins=config.margins,
        output=str(Path(config.output) / "comparison") if config.output else None,
        store=config.store,
    )


def decide(
    run: EvaluateResult, compared: CompareResult | None, baseline: str | None, *, fail_on: FailOn = FailOn.HIGH
) -> tuple[Gate, str]:
    """Decide from the gate and the comparison: the worse of both.

    A first version is decided by the gate alone, and one whose gate never fails by the comparison alone.

    Args:
        compared: Its comparison, if there is something to compare with.
        baseline: What it was compared with, for the sentence.
    """
    gate = f"Gate: {run.gate_reason}"
    if compared is None:
        return run.gate, f"There is no earlier version to compare with, so the gate decides alone. {gate}"
    found: set[Gate] = {compared.verdict} | (set() if fail_on is FailOn.NEVER else {run.gate})
    decision: Gate = "fail" if "fail" in found else "inconclusive" if "inconclusive" in found else "pass"
    if fail_on is FailOn.NEVER:
        gate = f"The gate, which does not count here, says {run.gate}."
    comparison = f"Compared with {baseline}: {compared.reason.rstrip('.')}."
    first = compared.verdict == decision or fail_on is FailOn.NEVER  # the deciding reason comes first
    return decision, f"{comparison} {gate}" if first else f"{gate} {comparison}"


def _known(record: Mapping[str, Any]) -> ModelVersionResult:
    """Return what is on record of a version that another flow run evaluates, or has evaluated."""
    if record["state"] == "running":
        return ModelVersionResult(
            model=record["model"],
            version=record["version"],
            standing="in_progress",
            reason=f"It is being evaluated since {record['claimed']} by {record['process']}.",
        )
    known = {name: record[name] for name in ModelVersionResult.model_fields if name in record}
    return ModelVersionResult(**known | {"standing": "known", "asked": 0})


def links_of(store: Store, result: ModelVersionResult) -> dict[str, str]:
    """Return the addresses of a version's reports for a browser, by what they are."""
    found = {}
    if result.run and result.report:
        found["Report"] = run_link(store, store.run(result.run), result.report)
    if compared := result.comparison_report:
        found["Comparison"] = comparison_link(store, compared.parent.name, compared)
    return found


def _summary(store: Store, result: ModelVersionResult) -> str:
    links = [f"- {what}: <{link}>" for what, link in links_of(store, result).items()]
    head = f"# {result.model} {result.version}: {(result.decision or '').upper()}"
    return "\n\n".join([head, result.reason, "\n".join(links)])


class CheckVersion(Job[ModelVersionConfig, VersionRequest, JobSteps, ModelVersionResult]):
    """Collect a new model version's answers, score them, compare them with the version before, and decide."""

    name = "on-model-version"
    Config = ModelVersionConfig
    first_step = "load"
    named = "suite"
    kept = "Interrupted. Answers and scores are kept: the same command goes on from there."

    def check(self, config: ModelVersionConfig) -> VersionRequest:
        """Check what is measured and who is asked, and load the suite and the answers that are given.

        Raises:
            UsageError: The request makes no sense, or the answers are not those of the version.
            DatasetError: A dataset was refused.
        """
        check_measured(config)
        target = None if config.answers else target_of(config)
        if target:
            check_target(target)
        store = Store.open(config.store)
        suite = load_dataset(store, config.suite, cases_only=True, **reading_of_suite(config))
        given = _given(store, config, config.answers) if config.answers else None
        return VersionRequest(store, suite, target, given)

    def run(self, config: ModelVersionConfig, checked: VersionRequest, steps: JobSteps) -> ModelVersionResult:
        """Evaluate a version of a model, once for each (model version, suite, configuration).

        Args:
            config: The version, the cases, and what makes it fail.
        """
        store, subject = checked.store, subject_of(config, checked.suite, checked.target, checked.given)
        _baseline(store, config, subject)  # refuses one that does not exist, before anything is asked
        taken = claim(store, subject, owner={"flow_run": "", **steps.origin()}, again=config.again)
        if not isinstance(taken, Claim):
            known = _known(taken)
            steps.log.info("%s %s: %s", config.model, config.version, known.reason)
            return known
        with renewed(taken):
            collected = _collected(config, checked, subject, checked.target, steps) if checked.target else None
            run = steps.run_job(Evaluate(), evaluation_of(config, collected))
            result = _decided(store, config, subject, collected, run, steps)
            outcome = result.model_dump(mode="json", exclude={"model", "version", "standing", "asked"})
            taken.finish("done" if is_final(result, run.unscored) else "incomplete", outcome)
        steps.show("leadline-model-version", _summary(store, result), config.model)
        _announce(config, checked, result, steps)
        return result

    def check_outside(self, config: ModelVersionConfig, rules: outside.Allowed) -> None:
        """Refuse a target that requests from outside may not name."""
        if not config.answers:
            if config.target.file:
                rules.check_file("targets file", config.target.file)
            own = None if config.target.model else targets_file_of(config.target)
            outside.check_target(rules, target_of(config), read_targets(Path(own)) if own else ())

    def run_name(self, config: ModelVersionConfig) -> str:
        """Return the name of a run, which has model and version."""
        return f"{config.model} {config.version}"

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
