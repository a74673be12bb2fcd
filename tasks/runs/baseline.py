"""The baseline of a run: the earlier run that it is compared with, by default the production one or the one before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from leadline.tasks.db import connect, literal
from leadline.tasks.runs.lookup import all_tags, find_run, status, tags_of
from leadline.tasks.store.store import RESCORED, Run, Store

PREVIOUS: Final = "previous"
NONE: Final = "none"
PRODUCTION: Final = "production"
"""The tag of the run that others are compared with by default."""

_SECOND: Final = len("20260102-030405")
"""Characters of a run's id that say in which second it began; what follows says nothing of the order."""


@dataclass(frozen=True, slots=True)
class ChosenBaseline:
    """The baseline of a run.

    Attributes:
        run: The earlier run; ``None`` where there is none.
        tag: A tag that it has, or ``""``.
        note: Why there is none, or ``""``.
    """

    run: Run | None
    tag: str = ""
    note: str = ""


def check_against(store: Store, against: str | None) -> None:
    """Refuse a baseline that is named and not there, before anything is scored.

    Args:
        against: What was asked for; see :func:`find_baseline`.

    Raises:
        UsageError: There is no such run or tag.
    """
    if against not in (None, "", PREVIOUS, NONE):
        find_run(store, str(against))


def find_baseline(store: Store, run: Run, against: str | None = None) -> ChosenBaseline:
    """Find the run to compare a run with; only completed ones count, and never itself.

    Args:
        against: ``previous`` for the last run of a dataset of the same name that shares an evaluator with it, or a run
            as :func:`.lookup.find_run` takes it (``tag:NAME``, an id, ``latest``). By default the run tagged
            ``production``, if its dataset has the same name or shares cases, else the previous one.

    Raises:
        UsageError: The named run does not exist.
    """
    record = run.read()
    if against not in (None, "", PREVIOUS):
        return _named(find_run(store, str(against)), run, str(against))
    if against != PREVIOUS:
        tagged = all_tags(store).get(PRODUCTION)
        if tagged and tagged[0].id != run.id and _fits(store, record, tagged[0].read()):
            return ChosenBaseline(tagged[0], PRODUCTION)
    for _, begun_together in groupby(reversed(store.runs()), lambda other: other.id[:_SECOND]):
        found = [(other, before) for other in begun_together if _precedes(before := other.read(), record)]
        if found:
            last, _ = max(found, key=lambda pair: (str(pair[1].get("started")), pair[0].id))
            return ChosenBaseline(last, next(iter(tags_of(last)), ""))
    return ChosenBaseline(None, note="no earlier run of this dataset to compare with")


def _precedes(before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether a run can be the one before another: of a dataset of its name, with an evaluator in common."""
    return (
        before.get("dataset_name") == record.get("dataset_name")
        and before.get("id") != record.get("id")
        and not set(before.get("identities", ())).isdisjoint(record.get("identities", ()))
        and status(before) == "completed"
        and not before.get(RESCORED)
    )


def _named(found: Run, run: Run, against: str) -> ChosenBaseline:
    if found.id == run.id:
        return ChosenBaseline(None, note=f"{against} is this run itself")
    state = status(found.read())
    if state != "completed":
        return ChosenBaseline(None, note=f"run {found.id} is no baseline: it is {state}")
    tag = against.removeprefix("tag:") if against.startswith("tag:") else next(iter(tags_of(found)), "")
    return ChosenBaseline(found, tag)


def _fits(store: Store, record: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether an earlier run is completed, and of a dataset with the same name or with some of the cases."""
    if status(before) != "completed":
        return False
    if before.get("dataset_name") == record.get("dataset_name"):
        return True
    files = [store.dataset(str(found.get("dataset"))) / "cases.parquet" for found in (record, before)]
    if not all(file.exists() for file in files):
        return False
    ours, theirs = (f"read_parquet({literal(file)})" for file in files)
    with connect(threads=1) as connection:
        (shared,) = connection.execute(
            f"SELECT EXISTS (FROM {ours} WHERE case_key IN (SELECT case_key FROM {theirs}))"
        ).fetchall()[0]
    return bool(shared)
