"""Refusing, before anything is paid for, what cannot be stopped early."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.evaluators.core import Evaluator, Metric
from leadline.evaluators.ground import ErrorCode, UsageError, listing
from leadline.tasks.analyse.gather import run_threshold
from leadline.tasks.policy.policy import Policy, Role


def check_stoppable(
    evaluators: Iterable[Evaluator], policy: Policy, *, fail_on: str, compared: bool, gate_on: str = "policy"
) -> None:
    """Refuse a request whose outcome no part of the rows can decide.

    Args:
        evaluators: The evaluators of the run.
        policy: The gate's policy.
        fail_on: Least severity of a problem that fails the gate, or ``never``.
        compared: Whether the run is compared with another that was named.
        gate_on: What decides metrics that ask a judge, as ``--gate-on`` has it.

    Raises:
        UsageError: Nothing is asked, no judge is, or a judged metric that can block is no mean of bounded values, or
            decided by what people's labels make of it.
    """
    if fail_on == "never" and not compared:
        raise UsageError(
            "--stop-when decided has nothing to decide.",
            hint="Give --fail-on high or medium for the gate, or --against RUN for a comparison.",
            code=ErrorCode.STOP_NOTHING_ASKED,
        )
    judged = [evaluator for evaluator in evaluators if evaluator.spec.lane == "judge"]
    if not judged:
        raise UsageError(
            "--stop-when decided saves judge calls, and no evaluator of this run asks a judge.",
            hint="Name a judge and an evaluator that asks it, or leave --stop-when away.",
            code=ErrorCode.STOP_NO_JUDGE,
        )
    whole = [
        f"{evaluator.spec.id}:{metric.key}"
        for evaluator in judged
        for metric in evaluator.metrics
        if not _is_mean(metric) and _blocks(policy, evaluator, metric)
    ]
    if whole:
        raise UsageError(
            f"No part of the rows decides {listing(whole, most=3)}: judge all of them (--stop-when never).",
            hint="Only means of values with a least and a greatest one can be decided early.",
            code=ErrorCode.STOP_WHOLE_DATASET,
        )
    corrected = [
        f"{evaluator.spec.id}:{metric.key}"
        for evaluator in judged
        for metric in evaluator.metrics
        if fail_on != "never"
        and _turns(policy, evaluator, metric)
        and (policy.rule(evaluator.spec, metric).use if gate_on == "policy" else gate_on) == "corrected"
    ]
    if corrected:
        raise UsageError(
            f"The gate decides {listing(corrected, most=3)} by values that people's labels correct, of all rows.",
            hint="Judge all of them (--stop-when never), or let the judge's own values decide (--gate-on judge).",
            code=ErrorCode.STOP_WHOLE_DATASET,
        )
    if not compared and not any(
        _turns(policy, evaluator, metric) for evaluator in judged for metric in evaluator.metrics
    ):
        raise UsageError(
            "--stop-when decided has nothing to decide: by the policy no metric of a judge can fail the gate.",
            hint="Give one a threshold and the role should or must, or name --against RUN.",
            code=ErrorCode.STOP_NOTHING_ASKED,
        )


def _turns(policy: Policy, evaluator: Evaluator, metric: Metric) -> bool:
    """Return whether a metric has a threshold and can block."""
    threshold = run_threshold(evaluator, metric, policy.rules_of(evaluator)[metric.key])
    return threshold is not None and _blocks(policy, evaluator, metric)


def _is_mean(metric: Metric) -> bool:
    low, high = metric.range
    return not metric.dataset_level and not metric.pooled and 0 < high - low < float("inf")


def _blocks(policy: Policy, evaluator: Evaluator, metric: Metric) -> bool:
    if policy.problems == "seed":
        return metric.primary
    return policy.rules_of(evaluator)[metric.key].role is not Role.INFORMATION
