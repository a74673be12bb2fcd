"""Comparing as the settings say, in this process and without Prefect."""

from __future__ import annotations

from pathlib import Path

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.flows.compare.config import CompareConfig, CompareResult
from leadline.tasks.compare import Comparison, Options, compare
from leadline.tasks.compare.options import Margins
from leadline.tasks.compare.sides import find, find_versions
from leadline.tasks.policy.policy_file import load_policy
from leadline.tasks.store.store import Store


def run_comparison(config: CompareConfig) -> Comparison:
    """Compare as a configuration says, in this process and without Prefect.

    Raises:
        UsageError: There is no such run, model, version or metric, or both sides are the same.
        StoreError: The store cannot be read or written.
    """
    store = Store.open(config.store)
    if config.versions:
        baseline, candidate = find_versions(store, str(config.model), (config.versions[0], config.versions[1]))
    else:
        baseline = find(store, config.baseline)
        candidate = find(store, config.candidate, beside=baseline)
    if baseline == candidate:
        raise UsageError(
            f"Both sides are run {baseline.run.id}.",
            hint="Name another run, or two models of this one.",
            code=ErrorCode.COMPARE_SIDES,
        )
    options = Options(
        margins=Margins(config.margin, config.margins),
        alpha=config.alpha,
        metrics=config.metrics,
        all_metrics=config.all_metrics,
        policy=load_policy(config.policy) if config.policy else None,
        slices=tuple(dict.fromkeys(config.slices)),
        mapping=config.model_map,
        allow_different_configurations=config.allow_different_configurations,
        shown=config.shown,
        output=Path(config.output) if config.output else None,
    )
    return compare(store, baseline, candidate, options)


def result_of(comparison: Comparison) -> CompareResult:
    """Return the flow's result."""
    verdicts = [found.verdict for found in comparison.metrics]
    return CompareResult(
        comparison=comparison.id,
        baseline=comparison.baseline.run,
        candidate=comparison.candidate.run,
        verdict=comparison.verdict,
        reason=comparison.reason,
        metrics={str(verdict): verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)},
        folder=comparison.folder,
        report=comparison.report,
    )
