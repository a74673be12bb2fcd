"""Retention: which runs keep their results, by age, number and tag."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.evaluators.ground import FILE, ErrorCode, UsageError, refusals_of, settings_document
from leadline.tasks.runs.lookup import tags_in
from leadline.tasks.store.store import RESCORED

ANY_TAG: Final = ("*",)

_DURATION: Final = re.compile(r"([0-9]{1,6})(m|h|d|w)")
_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_STAMP: Final = "%Y%m%d-%H%M%S"


@dataclass(frozen=True, slots=True)
class Retention:
    """Rules of what a store keeps; without the first two, all runs keep their results.

    Attributes:
        keep_last: Of each dataset, by name, this many of the youngest completed runs keep theirs.
        older_than: Seconds; younger runs keep theirs.
        keep_tags: Patterns of tags; runs with such a tag keep theirs.
        scores_older_than: Seconds; scores and embeddings that no run with results uses, and that were neither
            written nor used for as long, are dropped. ``None``: they stay.
    """

    keep_last: int | None = None
    older_than: float | None = None
    keep_tags: tuple[str, ...] = ANY_TAG
    scores_older_than: float | None = None


class _Table(BaseModel):
    """The table ``[retention]`` of ``leadline.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_last: int | None = Field(None, ge=0)
    older_than: str | None = None
    keep_tags: tuple[str, ...] = ANY_TAG
    scores_older_than: str | None = None


def load_retention(
    keep_last: int | None = None,
    older_than: str | None = None,
    keep_tags: Sequence[str] = (),
    scores_older_than: str | None = None,
) -> Retention:
    """Return what is asked for, completed by the table ``[retention]`` of ``leadline.toml`` in the working directory.

    Args:
        keep_last: See :class:`Retention`.
        older_than: A duration, such as ``30d``.
        keep_tags: See :class:`Retention`.
        scores_older_than: A duration.

    Raises:
        UsageError: The file is broken, or a duration is none.
    """
    table = _table()
    return Retention(
        keep_last=table.keep_last if keep_last is None else keep_last,
        older_than=_seconds(older_than or table.older_than),
        keep_tags=tuple(keep_tags) or table.keep_tags,
        scores_older_than=_seconds(scores_older_than or table.scores_older_than),
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else seconds_of(text)


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as ``90m``, ``12h``, ``30d`` or ``8w``.

    Raises:
        UsageError: It is none.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text[:40]!r} is no duration.", hint="Write it as 90m, 12h, 30d or 8w.", code=ErrorCode.CONFIG_OPTION
        )
    return int(found[1]) * _SECONDS[found[2]]


def _table() -> _Table:
    try:
        return _Table.model_validate(settings_document().get("retention", {}))
    except ValidationError as error:
        raise UsageError(
            f"{FILE}, [retention]: {'; '.join(refusals_of(error))}.",
            hint="See docs/operations/README.md for its settings.",
            code=ErrorCode.CONFIG_OPTION,
        ) from error


def runs_to_drop(
    records: Mapping[str, Mapping[str, Any]], retention: Retention, now: float, needed: Collection[str] = ()
) -> dict[str, str]:
    """Return the runs whose results are to be dropped, each with the reason.

    Args:
        now: The time, in seconds since 1970.
    """
    if retention.keep_last is None and retention.older_than is None:
        return {}
    completed: dict[str, int] = {}
    found: dict[str, str] = {}
    for run, record in sorted(records.items(), key=lambda pair: (began(*pair), pair[0]), reverse=True):
        name = str(record.get("dataset_name"))
        place = completed.get(name, 0) + 1
        reason = why_dropped(run, record, retention, now, place)
        if reason and run not in needed:
            found[run] = reason
        if record.get("status") == "completed" and not record.get(RESCORED):
            completed[name] = place
    return dict(sorted(found.items()))


def why_dropped(run: str, record: Mapping[str, Any], retention: Retention, now: float, place: int) -> str:
    """Return why a run's results are to be dropped, ``""`` if they stay.

    Args:
        now: The time, in seconds since 1970.
        place: One more than there are younger completed runs of its dataset.
    """
    if record.get("status", "running") == "running" or is_kept_by_tag(record, retention):
        return ""
    age = now - began(run, record)
    if retention.older_than is not None and age <= retention.older_than:
        return ""
    if retention.keep_last is not None and place <= retention.keep_last:
        return ""
    return f"{age / 86_400:.0f} days old, {place - 1} younger runs of its dataset"


def is_kept_by_tag(record: Mapping[str, Any], retention: Retention) -> bool:
    """Return whether a run has a tag that keeps its results."""
    return any(fnmatchcase(tag, pattern) for tag in tags_in(record) for pattern in retention.keep_tags)


def began(run: str, record: Mapping[str, Any]) -> float:
    """Return when a run began, in seconds since 1970; now, if that is nowhere said.

    Args:
        run: Its id, which begins with the time.
    """
    try:
        return datetime.fromisoformat(str(record["started"])).timestamp()
    except (KeyError, ValueError):
        pass
    try:
        return datetime.strptime(run[:15], _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()
