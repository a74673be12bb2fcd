"""The waves in which judges score a run's cases, drawn before any score is looked at; and what came of them.

What no part of the rows can decide is refused here, before anything is paid for; without NumPy, as a plan does it too.

An original with all its copies, and all models' rows of them, is judged as one. Their order is that of a digest of the
dataset and the original's key: never the dataset's own, which may be sorted, and the same for every run, so that a run
that goes on from another extends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.core import Evaluator, Metric
from leadline.evaluators.ground import ErrorCode, UsageError, listing, percent
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.analyse.gather import run_threshold
from leadline.tasks.db import lines_shown, sql
from leadline.tasks.ground.files import digest
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.planner import reads_ids
from leadline.tasks.policy.policy import Policy, Role

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Outcome: TypeAlias = Literal["pass", "fail", "open"]

LEVEL: Final = 0.05
"""Chance that judging the rest would change a decision."""
MOST_WAVES: Final = 20
LEAST_CLUSTERS: Final = 25
"""Clusters of a wave, at least."""
LEAST_AT_FIRST: Final = 50
"""Clusters of the first wave, at least."""


def number_of_waves(clusters: int) -> tuple[int, int]:
    """Return into how many parts clusters are divided, and how many of the first of these are one wave."""
    parts = max(1, min(MOST_WAVES, clusters // LEAST_CLUSTERS))
    return parts, min(parts, -(-LEAST_AT_FIRST * parts // max(1, clusters)))


def order_in_waves(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob], dataset: str) -> int:
    """Fill the table ``waves`` with the rows that judges are to score, and return the number of waves.

    Of equal rows, which are computed once, the one of the earliest wave stands for all in ``to_compute``.

    Args:
        connection: A connection on which :func:`leadline.tasks.plan.planner.plan` has run.
    """
    judged = [job for job in jobs if job.lane == "judge" and not job.error]
    seed = digest([dataset, "stop-v1"])
    connection.register("families", perturbation_clusters(connection))
    connection.execute(sql("stopping/waves"), {"evaluators": [job.evaluator_id for job in judged], "seed": seed})
    connection.unregister("families")
    (clusters,) = connection.execute("SELECT coalesce(max(place) + 1, 0) FROM waves").fetchall()[0]
    if not clusters:
        return 0
    parts, first = number_of_waves(clusters)
    connection.execute(sql("stopping/number_waves"), {"waves": parts, "clusters": clusters, "joined": first - 1})
    reads = reads_ids(jobs)
    columns = {
        "evaluator_id": [job.evaluator_id for job in judged],
        "reads_id": [reads[job.evaluator_id] for job in judged],
    }
    with lines_shown(connection, "reading", columns):
        connection.execute(sql("stopping/first_rows"))
        connection.execute(sql("stopping/replace_rows"))
    return parts - first + 1


def wave_part(wave: int) -> str:
    """Return the name of the part of a run's plan that has a wave's rows."""
    return f"w{wave:02d}"


def wave_of(part: str) -> int:
    """Return the wave whose rows a part of a run's plan has; 0 for a part that is none, which goes beside the first."""
    return int(part[1:]) if part[:1] == "w" and part[1:].isdigit() else 0


@dataclass(frozen=True, slots=True)
class WaveOutcome:
    """The outcome of judging in waves, as a run's record keeps it.

    Attributes:
        decision: ``pass`` or ``fail`` where that was decided; ``open`` where all was judged.
        clusters: Cases judged, each with its copies.
        against: Id of the run that it was compared with, ``""`` without.
        certain: Whether they ask no judge, so that no verdict can change it.
        open_ends: What else can fail the gate, so that means could not decide a pass.
        saved_usd: What judging the rest would have cost; ``None`` where prices are unknown.
    """

    decision: Outcome
    wave: int
    waves: int
    clusters: int
    all_clusters: int
    level: float = LEVEL
    against: str = ""
    gate_asked: bool = True
    failed: tuple[str, ...] = ()
    certain: bool = False
    open: tuple[str, ...] = ()
    open_ends: str = ""
    saved_usd: float | None = None

    @property
    def early(self) -> bool:
        """True if some cases were not judged."""
        return self.clusters < self.all_clusters

    @classmethod
    def of(cls, record: dict[str, Any]) -> WaveOutcome | None:
        """Return the outcome in a run's record, if it was judged in waves."""
        found = record.get("stopping")
        if not isinstance(found, dict):
            return None
        known = {field.name: found[field.name] for field in fields(cls) if field.name in found}
        lists = {name: tuple(found.get(name) or ()) for name in ("failed", "open")}
        return cls(**{**known, **lists})


def check_stoppable(
    evaluators: Iterable[Evaluator], policy: Policy, *, fail_on: str, compared: bool, gate_on: str = "policy"
) -> None:
    """Refuse a request whose outcome no part of the rows can decide.

    Args:
        fail_on: Least severity of a problem that fails the gate, or ``never``.
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


def stop_in_words(outcome: WaveOutcome, gate: str) -> str:
    """Return for people what was decided when, and what that saved.

    Args:
        gate: The gate's decision, which may rest on other metrics too.
    """
    cases = f"{outcome.clusters:,} of {outcome.all_clusters:,} cases"
    if not outcome.early:
        return f"Judged all {outcome.all_clusters:,} cases: {_why_all(outcome)}."
    what = outcome.decision.upper()
    decided = f"Decided {what}" if outcome.decision == gate else f"What judges say was decided ({what})"
    decided += f" against run {outcome.against}" if outcome.against else ""
    failed = f" by {listing(outcome.failed, most=3)}" if outcome.decision == "fail" and outcome.failed else ""
    share = percent(outcome.clusters / outcome.all_clusters)
    money = f", ${outcome.saved_usd:.2f}" if outcome.saved_usd else ""
    sure = "judging the rest would change this" if outcome.gate_asked else "such a decision is wrong"
    odds = f"{sure} in at most {100 * outcome.level:g} of 100 runs"
    if outcome.certain:
        odds = "whatever judges say of the rest does not change this"
    return (
        f"{decided}{failed} after {cases} ({share}): {odds}. "
        f"Saved about {outcome.all_clusters - outcome.clusters:,} cases{money}. "
        "The same command with --stop-when never judges the rest."
    )


def _why_all(outcome: WaveOutcome) -> str:
    if not outcome.gate_asked and not outcome.against:
        return outcome.open_ends or "there is nothing to compare with"
    if outcome.waves < 2:
        return "they are too few to stop before"
    if outcome.open:
        return f"{listing(outcome.open, most=3)} could not be decided before"
    if outcome.gate_asked and outcome.open_ends:
        return f"{outcome.open_ends} can fail the gate too, so that a pass takes all of them"
    return "it could not be decided before"
