"""Scores that a judge gave although it had changed, which later runs of the same epoch find in the store and reuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from leadline.evaluators.core import EvalContext
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.evaluators.settings import Settings, members_of
from leadline.tasks.db import literal, sql
from leadline.tasks.judges.drift.epochs import enrolled_keys, judge_key
from leadline.tasks.judges.drift.judge_standing import JudgeStanding, standing_of
from leadline.tasks.judges.drift.run_judges import JUDGES
from leadline.tasks.judges.labels.judging import occasion_at
from leadline.tasks.plan.planner import Need, reads_ids
from leadline.tasks.store.parquet_files import intact_parquet_files
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def put_to_changed(record: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Return keys and epochs of the judges that a run put rows to although they had changed.

    Args:
        record: The run's record.
    """
    found: Mapping[str, Mapping[str, Any]] = record.get(JUDGES) or {}
    return frozenset(
        (judge["key"], judge["epoch"])
        for judge in found.values()
        if judge["state"] == "changed" and not judge["stopped"]
    )


def reused_after_change(
    connection: DuckDBPyConnection, store: Store, needs: Sequence[Need], settings: Settings
) -> dict[str, dict[str, Any]]:
    """Return how the changed judges stand of whose scores a run reuses some of after the change, by name.

    Args:
        connection: The run's database, after it was planned.
        needs: The run's evaluators with what each reuses.
        settings: The run's settings, with the judges in their epochs.
    """
    found: dict[str, dict[str, Any]] = {}
    reads = reads_ids([need.job for need in needs])
    for need, name, standing in _changed(store, needs, settings):
        runs = [run.id for run in store.runs() if (standing.key, standing.epoch) in put_to_changed(run.read())]
        folder = store.scores(need.job.evaluator, need.job.config)
        files = [file for file in intact_parquet_files(folder, "scores") if _is_after(file.name, standing, runs)]
        if not files:
            continue
        names = {"evaluator": need.job.evaluator_id, "reads": reads[need.job.evaluator_id]}
        listed = f"[{', '.join(map(literal, files))}]"
        ((rows,),) = connection.execute(sql("plan/rows_stored_in").format(segments=listed), names).fetchall()
        if rows:
            told = standing.to_json() | {"name": name, "stopped": True, "not_checked": "", "newly_changed": False}
            found[name] = told | {"reused": rows + found.get(name, {}).get("reused", 0)}
    return found


def _is_after(segment: str, standing: JudgeStanding, runs: Sequence[str]) -> bool:
    """Return whether a segment is of one of these runs, or of labelled rows that were judged after the change."""
    if segment.startswith(tuple(f"{run}-" for run in runs)):
        return True
    first = occasion_at(datetime.fromtimestamp(standing.check.at, UTC)) if standing.check else ""
    return bool(first) and segment.startswith(first.partition("-")[0]) and segment >= first


def _changed(store: Store, needs: Sequence[Need], settings: Settings) -> Iterator[tuple[Need, str, JudgeStanding]]:
    """Yield the evaluators that reuse scores of a judge that has changed, with its name and how it stands."""
    known = set(enrolled_keys(store)) if settings.judges else set()
    ctx = EvalContext(settings)
    for need in needs if known else ():
        evaluator = need.job.build() if need.reused and need.job.lane == "judge" else None
        asked = ctx.judge_config(evaluator.judge_key()) if isinstance(evaluator, JudgeEvaluator) else None
        for judge in members_of(asked) if asked is not None else ():
            standing = standing_of(store, judge_key(judge)) if judge_key(judge) in known else None
            if standing is not None and standing.state == "changed":
                yield need, standing.name_of(judge), standing
