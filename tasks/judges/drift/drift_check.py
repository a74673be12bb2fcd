"""Checking whether a judge is still the one that was enrolled.

Each probe is asked once. Where the replies, or those of the last checks together, are unlikely of an unchanged judge,
every probe is asked again as often as at enrolment, and those replies alone decide: see
:mod:`leadline.tasks.statistics.judge_stability` for the tests, and ``docs/mechanisms/statistics.md`` for how often they
err.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.event_loop import run
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.judges.drift.enrolment import Enrolment, NotChecked, Replies, ask_probes, configs_of, find_enrolment
from leadline.tasks.judges.drift.epochs import epoch_of, judge_files, judge_key, keep
from leadline.tasks.ledger.ledger import open_ledger, read_ledger
from leadline.tasks.statistics.judge_stability import CERTAIN, POOLED_CHECKS, SUSPICIOUS, value_drift, verdict_drift
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Ints

State: TypeAlias = Literal["steady", "suspect", "changed"]


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """The outcome of a check, as the ledger has it, with the columns of ``ledger/add_drift_check`` in their order.

    Attributes:
        occasion: What makes it the same check as another process's.
        at: When, in seconds since 1970.
        differing: Probes with another verdict than at enrolment, averaged over the pairs of replies.
        expected: The same between two replies at enrolment: the judge's own noise.
        p: The chance of so much difference if nothing changed.
        level: What p was held against: 0.001 where every probe was asked again.
        state: ``steady``, ``suspect`` or ``changed``.
        served_model: Models that answered, as the provider named them.
    """

    occasion: str
    judge: str
    epoch: int
    at: float
    probes: int
    differing: float
    expected: float
    p: float
    level: float
    state: State
    served_model: str
    fingerprint: str

    @property
    def day(self) -> str:
        """The day of the check, as an ISO date in UTC."""
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()

    @property
    def time(self) -> str:
        """The time of that day, hours and minutes in UTC."""
        return f"{datetime.fromtimestamp(self.at, UTC):%H:%M}"


class Difference(NamedTuple):
    """Distance of replies from those at enrolment.

    Attributes:
        p: The chance of so much if nothing changed.
        differing: Probes with another verdict, averaged over the pairs of replies.
        expected: The same between two replies at enrolment.
        lenient: Of the differing pairs, the share in which only the fresh reply passes.
    """

    p: float
    differing: float
    expected: float
    lenient: float


def check_judge(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    *,
    now: datetime | None = None,
    part: str = "",
    limits: Limits | None = None,
) -> DriftCheck:
    """Check a judge, once for each day.

    A judge that is known to have changed is not asked again until that is accepted.

    Args:
        now: The time; the clock's by default.
        part: What makes it another check of the same day; ``""`` where any check of the day will do.

    Raises:
        UsageError: The judge is not enrolled.
        NotChecked: It does not answer, or is not asked as it was when it was enrolled.
    """
    now = now or datetime.now(UTC)
    key = judge_key(judge)
    epoch = epoch_of(store, key)
    enrolment = require_enrolment(store, judge)
    occasion = f"check/{now.date().isoformat()}{part and f'/{part}'}"
    for known in checks_of(store, key, epoch):
        if known.state == "changed" or known.occasion == occasion or (not part and known.day == f"{now:%Y-%m-%d}"):
            return known
    _check_same_questions(enrolment, judge)
    in_epoch = judge.model_copy(update={"epoch": epoch})
    probed = (store, in_epoch, settings, enrolment.metrics, enrolment.probes)
    fresh = ask_probes(*probed, occasion=occasion, replies=1, limits=limits)
    told, level, state = difference(enrolment, fresh), SUSPICIOUS, "steady"
    pooled = difference(enrolment, _pooled(store, key, enrolment, fresh, _file_name(epoch, occasion))).p
    if min(told.p, pooled) <= SUSPICIOUS:
        count = len(enrolment.replies.values[0])
        again = ask_probes(*probed, occasion=f"{occasion}/again", replies=count, limits=limits)
        told, level = difference(enrolment, again), CERTAIN
        state = "changed" if told.p <= CERTAIN else "suspect"
        fresh = _joined(fresh, again)
    check = DriftCheck(
        judge=key,
        epoch=epoch,
        at=now.timestamp(),
        occasion=occasion,
        probes=len(enrolment.probes),
        differing=told.differing,
        expected=told.expected,
        p=told.p,
        level=level,
        state=state,  # type: ignore[arg-type]
        served_model=", ".join(fresh.served_models),
        fingerprint=", ".join(fresh.fingerprints),
    )
    details = {
        "enrolment": enrolment.number,
        "replies": asdict(fresh),
        "lenient": told.lenient,
        "pooled_p": pooled,
        "tokens_p": _tokens_p(enrolment, fresh),
    }
    keep(store, key, "checks", _file_name(epoch, occasion), asdict(check) | details)
    run(open_ledger(store, occasion).keep_check(astuple(check)))
    return check


def _check_same_questions(enrolment: Enrolment, judge: JudgeConfig) -> None:
    """Refuse to compare replies to other prompts: what differs would be the prompt and not the judge.

    Raises:
        NotChecked: Prompts, code or parameters are others than those of the enrolment.
    """
    now = configs_of(enrolment.metrics, judge)
    told = zip(enrolment.metrics, enrolment.configs, now, strict=True)
    if others := sorted({metric.evaluator for metric, then, here in told if then != here}):
        raise NotChecked(
            f"The judge {judge.key!r} was not checked: since it was enrolled, prompt, code or parameters of "
            f"{', '.join(others)} have changed.",
            hint=f"Enrol it anew: leadline judges enrol {judge.key} --probes FILE",
        )


def require_enrolment(store: Store, judge: JudgeConfig) -> Enrolment:
    """Return the enrolment of a judge in its epoch.

    Raises:
        UsageError: There is none.
    """
    key = judge_key(judge)
    found = find_enrolment(store, key, epoch_of(store, key))
    if found is None:
        raise UsageError(
            f"The judge {judge.key!r} is not enrolled as it is configured now.",
            hint=f"Enrol it: leadline judges enrol {judge.key} --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    return found


def checks_of(store: Store, key: str, epoch: int | None = None) -> list[DriftCheck]:
    """Return the checks of a judge, youngest first."""
    found = [DriftCheck(**line) for line in read_ledger(store).drift_checks(key)]
    return [check for check in found if epoch in (None, check.epoch)]


def details_of(store: Store, check: DriftCheck) -> dict[str, Any]:
    """Return what the store has of a check beside the ledger, empty where another store has it."""
    wanted = _file_name(check.epoch, check.occasion)
    return next((record for name, record in judge_files(store, check.judge, "checks") if name == wanted), {})


def difference(enrolment: Enrolment, fresh: Replies) -> Difference:
    """Return how far replies are from those at enrolment.

    Where some metrics are numbers, their values are tested as well, and the smaller of the two p-values counts twice.
    """
    old, new = enrolment.verdicts(enrolment.replies), enrolment.verdicts(fresh)
    verdicts = verdict_drift(old, new)
    p = verdicts.p
    numbers, fresh_numbers = enrolment.numbers(enrolment.replies), enrolment.numbers(fresh)
    if numbers is not None and fresh_numbers is not None:
        p = min(1.0, 2 * min(p, value_drift(numbers, fresh_numbers).p))
    pairs = old.shape[1] * new.shape[1]
    return Difference(p, verdicts.statistic / pairs, _own_noise(old), _lenient(old, new))


def _own_noise(old: Ints) -> float:
    """Return how many probes differ on average between two replies at enrolment.

    The test's own expectation is of all replies together, and grows with the change that is to be seen against it.
    """
    ones, replies = old.sum(axis=1), old.shape[1]
    return float((2 * ones * (replies - ones)).sum() / (replies * (replies - 1)))


def _lenient(old: Ints, new: Ints) -> float:
    passes = int((new.sum(axis=1) * (old.shape[1] - old.sum(axis=1))).sum())
    fails = int(((new.shape[1] - new.sum(axis=1)) * old.sum(axis=1)).sum())
    return passes / (passes + fails) if passes + fails else 0.0


def _pooled(store: Store, key: str, enrolment: Enrolment, fresh: Replies, own: str) -> Replies:
    """Return the replies of a check together with those of the checks before it against the same enrolment.

    A process that was killed may have left the check's ``own`` file.
    """
    before = [
        Replies.from_json(record["replies"])
        for name, record in judge_files(store, key, "checks")
        if name != own and (record["epoch"], record["enrolment"]) == (enrolment.epoch, enrolment.number)
    ]
    firsts = [tuple((line[0],) for line in replies.values) for replies in before[1 - POOLED_CHECKS :]]
    values = tuple(sum(lines, ()) for lines in zip(*firsts, fresh.values, strict=True))
    return Replies(values, tuple(() for _ in values))


def _joined(first: Replies, second: Replies) -> Replies:
    """Return all replies of a check, those of its first step in front."""
    return Replies(
        values=tuple(a + b for a, b in zip(first.values, second.values, strict=True)),
        tokens=tuple(a + b for a, b in zip(first.tokens, second.tokens, strict=True)),
        served_models=tuple(sorted({*first.served_models, *second.served_models})),
        fingerprints=tuple(sorted({*first.fingerprints, *second.fingerprints})),
    )


def _tokens_p(enrolment: Enrolment, fresh: Replies) -> float:
    """Return the chance of so other lengths of replies if nothing changed; 1 where the provider tells none."""
    old = np.array(enrolment.replies.tokens, float)
    new = np.array([line[0] for line in fresh.tokens], float)
    return value_drift(old, new).p if old.all() and new.all() else 1.0


def _file_name(epoch: int, occasion: str) -> str:
    return f"{epoch:04d}-{occasion.removeprefix('check/').replace('/', '-')}"
