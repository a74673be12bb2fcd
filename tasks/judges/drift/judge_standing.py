"""The standing of judges: whether each is enrolled, steady, suspect or changed, and what else was noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, number, percent
from leadline.evaluators.settings import UNNAMED, JudgeConfig
from leadline.tasks.judges.drift.drift_check import DriftCheck, checks_of, details_of
from leadline.tasks.judges.drift.enrolment import Enrolment, find_enrolment
from leadline.tasks.judges.drift.epochs import enrolled_keys, epoch_of
from leadline.tasks.statistics.judge_stability import CERTAIN
from leadline.tasks.store.store import Store

Standing: TypeAlias = Literal["enrolled", "accepted", "steady", "suspect", "changed"]

STATES: Final[tuple[Standing, ...]] = ("enrolled", "accepted", "steady", "suspect", "changed")


@dataclass(frozen=True, slots=True)
class Sign:
    """Something beside the verdicts that hints at a change.

    Attributes:
        severity: How bad it is.
        text: What was noticed, in a sentence without its full stop.
    """

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class JudgeStanding:
    """A judge that is enrolled.

    Attributes:
        key: What identifies it in all its epochs.
        name: Its name at enrolment.
        epoch: How often a change of it was accepted.
        enrolled: When it was enrolled last, as an ISO time.
        state: ``enrolled`` or ``accepted`` (not checked since), ``steady``, ``suspect`` or ``changed``.
        check: Its last check in this epoch.
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
        """Return the hours since the judge was last checked, or else enrolled.

        Args:
            now: The time.
        """
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
    """Return how a judge stands; ``None`` for one that is not enrolled.

    Args:
        key: The judge.
    """
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
        key: The judge.
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
