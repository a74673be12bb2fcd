"""Gathering the scores of a run in its database, from the store's segments and the run's unscored rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leadline.evaluators.core import Evaluator, Lane, Metric, OverTurns, Spec
from leadline.evaluators.data import Reason
from leadline.tasks.db import has_turns, lines_shown, replace_lines, sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.planner import Need, reads_ids, segments
from leadline.tasks.policy.policy import Policy, Rule
from leadline.tasks.policy.questions import Question
from leadline.tasks.store.segments import METRIC_PREFIX
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def register_jobs(
    connection: DuckDBPyConnection, needs: Sequence[Need], policy: Policy, named: Set[str] = frozenset()
) -> None:
    """Fill the tables ``evaluators``, ``metrics`` and ``rules``.

    Args:
        named: Ids of the evaluators that were asked for by id.
    """
    evaluators: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    several = has_turns(connection)
    for need in needs:
        job, evaluator = need.job, need.job.build()
        spec = evaluator.spec
        evaluators.append(
            {
                "evaluator_id": job.evaluator_id,
                "evaluator": spec.id,
                "name": spec.name,
                "family": spec.family,
                "lane": job.lane,
                "leaderboard": spec.leaderboard,
                "config": job.config,
                "identity": json.dumps(job.identity),
                "params": json.dumps(job.params),
                "reused": need.reused,
                "computed": need.to_compute,
                "error": job.error or None,
            }
        )
        models = job.identity.get("models") or [{}]
        decided = policy.rules_of(evaluator, model=str(models[0].get("model", "")), named=job.evaluator in named)
        deciding = policy.deciding(evaluator.metrics, decided)
        for metric in evaluator.metrics:
            rule = decided[metric.key]
            low, high = metric.range
            metrics.append(
                {
                    "metric_id": len(metrics),
                    "evaluator_id": job.evaluator_id,
                    "metric": metric.key,
                    "name": metric.name,
                    "description": metric.description,
                    "higher_is_better": metric.higher_is_better,
                    "low": float(low),
                    "high": float(high),
                    "threshold": run_threshold(evaluator, metric, rule),
                    "is_primary": metric.key == deciding,
                    "is_share": metric.share and not (several and _is_averaged(spec, metric, rule)),
                    "dataset_level": metric.dataset_level,
                    "pooled": metric.pooled,
                }
            )
            limits = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(rule).items()}
            del limits["threshold"]
            decides = {
                "use": rule.use if spec.judge else "judge",
                "judged": spec.judge is not None,
                "named": job.evaluator in named,
            }
            rules.append({"metric_id": len(rules)} | limits | decides)
    for table, lines in (("evaluators", evaluators), ("metrics", metrics), ("rules", rules)):
        replace_lines(connection, table, lines)


def _is_averaged(spec: Spec, metric: Metric, rule: Rule) -> bool:
    """Return whether a conversation's value is a mean of its turns', so that it may be other than 0 and 1."""
    return spec.unit == "turn" and _over_turns(spec, metric, rule.question) == "mean"


def run_threshold(evaluator: Evaluator, metric: Metric, rule: Rule) -> float | None:
    """Return the threshold of a metric in this run: the parameter's, else the policy's, else the metric's own."""
    usual = metric.threshold if rule.threshold is None else rule.threshold
    given = evaluator.params.metric_threshold
    if isinstance(given, Mapping):
        return given.get(metric.key, usual)
    return given if given is not None and metric.primary else usual


def gather(
    connection: DuckDBPyConnection,
    store: Store,
    run: Run,
    jobs: Sequence[EvaluatorJob],
    *,
    lane: Lane | None = None,
    only: Set[int] | None = None,
) -> int:
    """Fill the tables ``scores``, ``evidence`` and ``repeats`` and return the number of scores.

    Every planned row ends with exactly one line per metric: scored, unscored with a reason, or not applicable.

    Args:
        only: Numbers of the evaluators whose scores are gathered; by default all.
    """
    connection.execute("BEGIN")
    connection.execute("DELETE FROM scores")
    connection.execute("DELETE FROM evidence")
    connection.execute("DELETE FROM repeats")
    connection.execute("DELETE FROM turn_scores")
    connection.execute("DELETE FROM turn_evidence")
    unscored = segments(run.unscored)
    reads = reads_ids(jobs)
    chosen = [job for job in jobs if lane in (None, job.lane) and (only is None or job.evaluator_id in only)]
    store.sync(store.scores(job.evaluator, job.config) for job in chosen if not job.error)
    for job in chosen:
        _gather_job(connection, store, job, reads[job.evaluator_id], unscored)
    if has_turns(connection):
        _reduce_turns(connection, chosen)
    connection.execute("COMMIT")
    (count,) = connection.execute("SELECT count(*) FROM scores").fetchall()[0]
    return int(count)


def _over_turns(spec: Spec, metric: Metric, question: str) -> OverTurns:
    """Return how the values of turns make that of their conversation.

    The worst turn decides what passes or fails, and what is asked for safety: one answer that gives a name away is not
    made good by nine that do not.
    """
    if metric.over_turns == "mean" and (spec.leaderboard == "bool" or question == Question.SAFE):
        return "min" if metric.higher_is_better else "max"
    return metric.over_turns


def _reduce_turns(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> None:
    """Make the scores of conversations from those of their turns, which go to tables of their own.

    A conversation counts once, however long it is. It is unscored if one of its turns is, as a row is of which one
    chunk was not rated; turns that a metric is not applicable to are left out.
    """
    metrics = {
        (job.evaluator_id, metric.key): (job.build().spec, metric) for job in jobs for metric in job.build().metrics
    }
    lines = connection.execute(sql("gather/metric_questions")).fetchall()
    found = [
        (metric_id, _over_turns(*metrics[evaluator, key], question))
        for metric_id, evaluator, key, question in lines
        if (evaluator, key) in metrics
    ]
    if not found:
        return
    columns = {"metric_id": [number for number, _ in found], "how": [how for _, how in found]}
    with lines_shown(connection, "over_turns", columns):
        for statement in sql("gather/reduce_turns").split(";\n\n"):
            connection.execute(statement)


def _gather_job(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int, unscored: str) -> None:
    names = {"evaluator_id": str(job.evaluator_id), "reads_id": str(reads_id), "unscored": unscored}
    names["trials"] = str(1 if job.samples else job.trials)
    names["all_trials"] = str(job.trials)
    files = segments(store.scores(job.evaluator, job.config)) if not job.error else ""
    if files:
        columns = [f'"{METRIC_PREFIX}{metric}"' for metric in job.build().row_metrics]
        names |= {
            "segments": files,
            "metric_columns": ", ".join(columns),
            "one_per_key": _one_per_key(connection, files),
        }
        connection.execute(sql("gather/scores").format(**names))
        connection.execute(sql("gather/evidence").format(**names))
        if job.samples:
            connection.execute(sql("gather/repeats").format(**names))
    if unscored:
        connection.execute(sql("gather/unscored").format(**names))
        connection.execute(sql("gather/unscored_evidence").format(**names))
    names["lost"] = f"'{Reason.EVALUATOR_ERROR if job.error else Reason.WORKER_LOST}'"
    connection.execute(sql("gather/unmeasured").format(**names))
    connection.execute(sql("gather/unmeasured_evidence").format(**names))


def _one_per_key(connection: DuckDBPyConnection, files: str) -> str:
    """Return the clause that keeps one line per key: needed only if two runs scored the same row at the same time."""
    lines, keys = connection.execute(
        f"SELECT count(*), count(DISTINCT (key, trial)) FROM read_parquet({files})"
    ).fetchall()[0]
    if lines == keys:
        return ""
    return "QUALIFY row_number() OVER (PARTITION BY key, trial ORDER BY filename) = 1"
