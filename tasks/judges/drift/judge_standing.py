"""The standing of judges: whether each is enrolled, steady, suspect or changed, and what else was noticed.

The judges of a run are checked before rows are put to them, and kept from rows once they have changed. Scores that one
gave although it had changed stay in the store, where later runs of the same epoch reuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.core import EvalContext, asked_judge
from leadline.evaluators.data import Severity
from leadline.evaluators.ground import LeadlineError, count, number, percent
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import UNNAMED, JudgeConfig, Settings, members_of
from leadline.tasks.db import literal, sql
from leadline.tasks.ground.files import digest, write_json
from leadline.tasks.judges.drift.drift_check import DriftCheck, check_judge, checks_of, details_of
from leadline.tasks.judges.drift.enrolment import Enrolment, find_enrolment
from leadline.tasks.judges.drift.epochs import enrolled_keys, epoch_of, judge_key
from leadline.tasks.judges.labels.judging import occasion_at
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.plan.jobs import QUARANTINED, quarantined_judges
from leadline.tasks.plan.planner import Need, reads_ids
from leadline.tasks.statistics.judge_stability import CERTAIN
from leadline.tasks.store.parquet_files import intact_parquet_files
from leadline.tasks.store.store import JUDGES, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Standing: TypeAlias = Literal["enrolled", "accepted", "steady", "suspect", "changed"]

STATES: Final[tuple[Standing, ...]] = ("enrolled", "accepted", "steady", "suspect", "changed")


@dataclass(frozen=True, slots=True)
class Sign:
    """Something beside the verdicts that hints at a change.

    Attributes:
        text: What was noticed, in a sentence without its full stop.
    """

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class JudgeStanding:
    """A judge that is enrolled.

    Attributes:
        key: What identifies it in all its epochs.
        epoch: How often a change of it was accepted.
        enrolled: When it was enrolled last, as an ISO time.
        state: ``enrolled`` or ``accepted`` (not checked since), ``steady``, ``suspect`` or ``changed``.
        lenient: Of the differing pairs of replies, the share in which only the fresh one passes.
        signs: What else was noticed at the last check.
    """

    key: str
    name: str
    model: str
    epoch: int
    enrolled: str
    state: Standing
    check: DriftCheck | None = None
    lenient: float = 0.0
    signs: tuple[Sign, ...] = ()

    def hours_since_check(self, now: datetime) -> float:
        """Return the hours since the judge was last checked, or else enrolled."""
        last = datetime.fromtimestamp(self.check.at, UTC) if self.check else datetime.fromisoformat(self.enrolled)
        return (now - last).total_seconds() / 3600

    def name_of(self, judge: JudgeConfig) -> str:
        """Return the name by which a person finds a judge: that of ``leadline.toml``, else that of its enrolment."""
        return self.name if judge.key == UNNAMED else judge.key

    def in_words(self) -> str:
        """Say in a sentence how the judge stands."""
        check = self.check
        if check is None:
            why = "its change was accepted" if self.state == "accepted" else "enrolled"
            return f"{why} on {self.enrolled[:10]}, not checked since"
        noise = f"{number(round(check.expected, 1))} expected by its own noise; p {check.p:.2g}"
        differ = f"{number(round(check.differing, 1))} of {count(check.probes, 'probe')} get another verdict ({noise})"
        if self.state == "changed":
            return f"CHANGED since {check.day}: {differ}{self._direction()}"
        return f"{self.state}: {differ}, checked on {check.day} at {check.time} UTC"

    def _direction(self) -> str:
        way = "more lenient" if self.lenient >= 0.5 else "stricter"
        return f". {percent(max(self.lenient, 1 - self.lenient))} of the differences are {way}"

    def to_json(self) -> dict[str, Any]:
        """Return the standing as JSON."""
        signs = [{"severity": sign.severity.value, "text": sign.text} for sign in self.signs]
        return asdict(self) | {"signs": signs, "in_words": self.in_words()}


def standing_of(store: Store, key: str) -> JudgeStanding | None:
    """Return how a judge stands; ``None`` for one that is not enrolled."""
    epoch = epoch_of(store, key)
    enrolment = find_enrolment(store, key, epoch)
    if enrolment is None:
        return None
    checks = checks_of(store, key, epoch)
    check = next((one for one in checks if one.state == "changed"), checks[0] if checks else None)
    state: Standing = check.state if check else ("accepted" if epoch else "enrolled")
    details = details_of(store, check) if check else {}
    return JudgeStanding(
        key=key,
        name=enrolment.name,
        model=enrolment.model,
        epoch=epoch,
        enrolled=enrolment.at,
        state=state,
        check=check,
        lenient=float(details.get("lenient", 0.0)),
        signs=_signs(enrolment, check, checks, details) if check else (),
    )


def standings(store: Store) -> list[JudgeStanding]:
    """Return how all judges stand that are enrolled, by name."""
    found = [standing for key in enrolled_keys(store) if (standing := standing_of(store, key)) is not None]
    return sorted(found, key=lambda standing: (standing.name, standing.key))


def signs_of_replies(store: Store, key: str, epoch: int, replies: Sequence[Mapping[str, str | None]]) -> list[Sign]:
    """Return whether replies come from a model or system that neither the enrolment nor a check of a judge has seen.

    Args:
        replies: Each ``served_model`` and ``fingerprint`` that the provider told.
    """
    enrolment = find_enrolment(store, key, epoch)
    told = {
        field: tuple(sorted({name for line in replies for name in _names(line[field] or "")}))
        for field in ("served_model", "fingerprint")
    }
    return _new_names(enrolment, checks_of(store, key, epoch), told) if enrolment else []


def _signs(
    enrolment: Enrolment, check: DriftCheck, checks: list[DriftCheck], details: Mapping[str, Any]
) -> tuple[Sign, ...]:
    """Return what else was noticed at a check."""
    told = {"served_model": _names(check.served_model), "fingerprint": _names(check.fingerprint)}
    found = _new_names(enrolment, [one for one in checks if one.at < check.at], told)
    if check.state == "steady" and details.get("tokens_p", 1.0) <= CERTAIN:
        found.append(Sign(Severity.LOW, "its replies have another length, and the same verdicts"))
    return tuple(found)


def _new_names(enrolment: Enrolment, before: Sequence[DriftCheck], told: Mapping[str, tuple[str, ...]]) -> list[Sign]:
    """Return the names of models and systems that the provider told and that were not known before."""
    found = []
    for what, known, field in (
        ("model", enrolment.replies.served_models, "served_model"),
        ("fingerprint", enrolment.replies.fingerprints, "fingerprint"),
    ):
        seen = {*known, *(name for one in before for name in _names(getattr(one, field)))}
        fresh = [name for name in told[field] if name not in seen]
        if fresh and seen:
            last = ", ".join(_names(getattr(before[0], field)) if before else known)
            found.append(Sign(Severity.MEDIUM, f"the provider's {what} went from {last} to {', '.join(fresh)}"))
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(", ") if name)


log = logging.getLogger("leadline.judge")


def watch(
    store: Store, run: Run, settings: Settings, judges: Sequence[str], *, stop: bool, limits: Limits, part: str = ""
) -> dict[str, Any]:
    """Check the enrolled judges of a run that were not checked of late, record how they stand, and return that.

    The calls are paid beside the run's budget, but not where the run may make no call at all.

    Args:
        settings: The run's settings, with the judges in their epochs.
        judges: Keys of the judges that are asked about rows; a jury's judges are watched one by one.
        stop: Do not put rows to a judge that has changed.
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
    """Return keys and epochs of the judges that a run put rows to although they had changed."""
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
        asked = asked_judge(evaluator, ctx) if evaluator is not None else None
        for judge in members_of(asked) if asked is not None else ():
            standing = standing_of(store, judge_key(judge)) if judge_key(judge) in known else None
            if standing is not None and standing.state == "changed":
                yield need, standing.name_of(judge), standing
