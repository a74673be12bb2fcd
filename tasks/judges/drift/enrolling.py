"""Enrolling a judge, and accepting that it changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, JuryConfig, Settings
from leadline.tasks.judges.drift.asking import ask_probes, configs_of
from leadline.tasks.judges.drift.enrolment import (
    ENROLLED_REPLIES,
    Enrolment,
    Probe,
    ProbedMetric,
    find_enrolment,
    save_enrolment,
)
from leadline.tasks.judges.drift.epochs import begin_epoch, epoch_of, judge_files, judge_key
from leadline.tasks.store.store import Store


def enrol(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    metrics: Sequence[ProbedMetric],
    probes: Sequence[Probe],
    *,
    limits: Limits | None = None,
) -> Enrolment:
    """Ask a judge about probes as often as a check needs, and keep what it says.

    What it is compared with later is its youngest enrolment.

    Args:
        settings: Where the user's own evaluators are.
        metrics: The metrics of the probes.
        limits: What calls count against.

    Raises:
        UsageError: It is a jury, or it runs here, so that it cannot change by itself.
        NotChecked: It does not answer.
    """
    if isinstance(judge, JuryConfig):
        raise UsageError(
            f"{judge.key!r} is a jury: each of its judges is enrolled by itself.",
            hint=f"Its judges: {', '.join(member.key for member in judge.members)}.",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    if judge.kind == "local":
        raise UsageError(
            f"The judge {judge.key!r} runs on this machine: its weights are part of every score's key.",
            hint="Only judges on a server need to be enrolled.",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    return _enrol(store, judge, settings, metrics, probes, epoch_of(store, judge_key(judge)), limits)


def accept(store: Store, judge: JudgeConfig, settings: Settings, *, limits: Limits | None = None) -> Enrolment:
    """Begin the next epoch of a judge, and enrol it as it is now with the same probes.

    Scores of the epochs before stay, and none of them is taken for one of the new epoch.

    Args:
        settings: Where the user's own evaluators are.
        limits: What calls count against.

    Raises:
        UsageError: It is not enrolled.
        NotChecked: It does not answer; the epoch is what it was.
    """
    key = judge_key(judge)
    epoch = epoch_of(store, key) + 1
    known = find_enrolment(store, key, epoch - 1)
    if known is None:
        raise UsageError(
            f"The judge {judge.key!r} is not enrolled as it is configured now, so there is no change to accept.",
            hint=f"Enrol it: leadline judges enrol {judge.key} --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    # The epoch begins when its enrolment is there: killed before that, nothing has changed and no reply is lost.
    enrolment = find_enrolment(store, key, epoch)
    if enrolment is None:
        enrolment = _enrol(store, judge, settings, known.metrics, known.probes, epoch, limits)
    begin_epoch(store, key, epoch, datetime.now(UTC))
    return enrolment


def _enrol(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    metrics: Sequence[ProbedMetric],
    probes: Sequence[Probe],
    epoch: int,
    limits: Limits | None,
) -> Enrolment:
    key = judge_key(judge)
    number = sum(name.startswith(f"{epoch:04d}-") for name, _ in judge_files(store, key, "enrolments")) + 1
    in_epoch = judge.model_copy(update={"epoch": epoch})
    configs = configs_of(metrics, judge)
    replies = ask_probes(
        store, in_epoch, settings, metrics, probes, occasion=f"enrol/{number}", replies=ENROLLED_REPLIES, limits=limits
    )
    enrolment = Enrolment(
        name=judge.key,
        model=judge.model,
        epoch=epoch,
        number=number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        metrics=tuple(metrics),
        configs=configs,
        probes=tuple(probes),
        replies=replies,
    )
    save_enrolment(store, key, enrolment)
    return enrolment
