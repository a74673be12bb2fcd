"""The judges of a run: checked before rows are put to them, and kept from rows once they have changed.

Scores that a judge gave although it had changed stay in the store, where later runs of the same epoch reuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import EvalContext, asked_judge
from leadline.evaluators.ground import LeadlineError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, Settings, members_of
from leadline.tasks.db import literal, sql
from leadline.tasks.ground.files import digest, write_json
from leadline.tasks.judges.drift.drift_check import check_judge
from leadline.tasks.judges.drift.epochs import enrolled_keys, judge_key
from leadline.tasks.judges.drift.judge_standing import JudgeStanding, signs_of_replies, standing_of
from leadline.tasks.judges.labels.judging import occasion_at
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.plan.jobs import QUARANTINED, quarantined_judges
from leadline.tasks.plan.planner import Need, reads_ids
from leadline.tasks.store.parquet_files import intact_parquet_files
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


log = logging.getLogger("leadline.judge")

JUDGES: Final = "judge_standings"
"""Field of a run's record: how its enrolled judges stood."""


def watch(
    store: Store, run: Run, settings: Settings, judges: Sequence[str], *, stop: bool, limits: Limits, part: str = ""
) -> dict[str, Any]:
    """Check the enrolled judges of a run that were not checked of late, record how they stand, and return that.

    The calls are paid beside the run's budget, but not where the run may make no call at all.

    Args:
        settings: The run's settings, with the judges in their epochs.
        judges: Keys of the judges that are asked about rows; a jury's judges are watched one by one.
        stop: Do not put rows to a judge that has changed.
        limits: What the run may spend.
        part: What makes it another check of the same day; ``""`` for the day's first.
    """
    ctx, quarantined = EvalContext(settings), dict(quarantined_judges(run))
    earlier = run.read().get(JUDGES) or {}
    found: dict[str, Any] = dict(earlier)
    for name in judges:
        asked = ctx.judge_config(name)
        for judge in members_of(asked) if asked is not None else ():
            told = _watched(store, judge, settings, part, limits)
            if told is None:
                continue
            if told["state"] == "changed" and stop and not part:
                quarantined[name] = _message(told)
            told["stopped"] = told["state"] == "changed" and name in quarantined
            before = earlier.get(told["name"], {})  # a run may be taken up again
            told["newly_changed"] |= bool(before.get("newly_changed"))
            told["reused"] = before.get("reused", 0)
            found[told["name"]] = told
    if quarantined:
        write_json(run.plan / QUARANTINED, quarantined)
        store.push([run.plan / QUARANTINED])
    if found:
        run.update({JUDGES: found})
    return found


def notice_replies(store: Store, run: Run) -> dict[str, Any]:
    """Add to how the judges of a run stood what the provider told of the replies of the run, and return that.

    Nothing is asked for this.

    Args:
        run: The run, whose rows are judged.
    """
    found: dict[str, Any] = run.read().get(JUDGES) or {}
    replies: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in read_ledger(store).served(run.id) if found else ():
        epoch = line["identity"].pop("epoch", 0)
        replies.setdefault((digest(line["identity"]), epoch), []).append(line)
    for judge in found.values():
        signs = signs_of_replies(store, judge["key"], judge["epoch"], replies.get((judge["key"], judge["epoch"]), []))
        told = [{"severity": sign.severity.value, "text": sign.text} for sign in signs]
        judge["signs"] += [sign for sign in told if sign not in judge["signs"]]
    if found:
        run.update({JUDGES: found})
    return found


def _watched(store: Store, judge: JudgeConfig, settings: Settings, part: str, limits: Limits) -> dict[str, Any] | None:
    """Return how a judge stands, after a check where one is due; ``None`` for one that is not enrolled."""
    standing = standing_of(store, judge_key(judge)) if judge.kind != "local" else None
    if standing is None:
        return None
    now, problem, before = datetime.now(UTC), "", standing.state
    due = bool(part) or standing.hours_since_check(now) >= judge.sentinel_every_h
    if due and standing.state != "changed" and limits.calls != 0:
        problem = _checked(store, judge, settings, now, part, Limits(team=limits.team))
        standing = standing_of(store, judge_key(judge)) or standing
    return standing.to_json() | {
        "name": standing.name_of(judge),
        "stopped": False,
        "not_checked": problem,
        "newly_changed": standing.state == "changed" and before != "changed",
    }


def _checked(store: Store, judge: JudgeConfig, settings: Settings, now: datetime, part: str, limits: Limits) -> str:
    """Check a judge, and return why that could not be done, ``""`` if it could."""
    try:
        check_judge(store, judge, settings, now=now, part=part, limits=limits)
    except LeadlineError as error:  # the run says itself what it could not judge
        log.warning("%s", error)
        return str(error)
    return ""


def _message(told: Mapping[str, Any]) -> str:
    name = told["name"]
    return f"The judge {name!r} {told['in_words']}. Rows are put to it again after: leadline judges accept {name}"


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
        asked = asked_judge(evaluator, ctx)
        for judge in members_of(asked) if asked is not None else ():
            standing = standing_of(store, judge_key(judge)) if judge_key(judge) in known else None
            if standing is not None and standing.state == "changed":
                yield need, standing.name_of(judge), standing
