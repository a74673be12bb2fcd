"""Finding runs in the store, by id, age or tag; and their status.

A tag is a name that people give to a run, such as ``production``. It stands in the record of the run that has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.ground.processes import has_ended, process_of
from leadline.tasks.runs.heartbeats import LOST
from leadline.tasks.store.store import DROPPED, RESCORED, TAGS, Run, Store

_LATEST: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")
_INTERRUPTIONS: Final = ("KeyboardInterrupt", "TerminationSignal")


def find_run(store: Store, name: str) -> Run:
    """Return the run that a name stands for: its id, a prefix that only it has, ``latest``, or ``tag:NAME``.

    ``latest`` is the youngest run that was completed, ``latest~1`` the completed one before it, and so on; runs that
    only scored another one's answers again are none of them.

    Raises:
        UsageError: There is none, or the prefix fits several.
    """
    if name.startswith("tag:"):
        return find_tagged(store, name.removeprefix("tag:"))
    runs = store.runs()
    if back := _LATEST.fullmatch(name):
        return _completed(store, runs, int(back[1] or 0))
    if any(run.id == name for run in runs):
        return store.run(name)
    matches = [run for run in runs if name and run.id.startswith(name)]
    if len(matches) > 1:
        few = ", ".join(run.id for run in matches[-3:])
        raise UsageError(
            f"{len(matches)} runs begin with {name!r} ({few}).",
            hint="Give more of the id.",
            code=ErrorCode.STORE_NO_RUN,
        )
    if not matches:
        raise UsageError(
            f"There is no run {name!r} in the store {store.location}.",
            hint="List runs: leadline store runs",
            code=ErrorCode.STORE_NO_RUN,
        )
    return matches[0]


def _completed(store: Store, runs: list[Run], back: int) -> Run:
    """Return the youngest completed run but ``back``."""
    completed = (
        run for run in reversed(runs) if status(record := run.read()) == "completed" and not record.get(RESCORED)
    )
    found = next(islice(completed, back, None), None)
    if found is None:
        few, verb = (f"Fewer than {back + 1} runs", "were") if back else ("No run", "was")
        raise UsageError(
            f"{few} in the store {store.location} {verb} completed yet.",
            hint="Look at: leadline store runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    return found


def status(record: Mapping[str, Any]) -> str:
    """Return the status of a run: ``running``, ``completed``, ``failed``, ``interrupted``, ``lost`` or ``dropped``.

    A run is dropped if it was completed and retention dropped its results.

    A run is interrupted if somebody stopped it, and lost if its record says ``running`` and its process is gone
    (another process may have its pid by now). Processes of other machines cannot be seen; their runs count as running
    here, and :mod:`leadline.tasks.runs.heartbeats` knows more.
    """
    stated = str(record.get("status", "running"))
    if stated == "completed" and record.get(DROPPED):
        return DROPPED
    if stated == "failed" and str(record.get("error")).startswith(_INTERRUPTIONS):
        return "interrupted"
    process = process_of(record.get("process"))
    return LOST if stated == "running" and process and has_ended(process) else stated


_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


def tags_of(run: Run) -> dict[str, str]:
    """Return a run's tags with the ISO times at which it got them."""
    return tags_in(run.read())


def tags_in(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags in a run's record, as :func:`tags_of` does."""
    found = record.get(TAGS)
    return {str(name): str(when) for name, when in found.items()} if isinstance(found, dict) else {}


def all_tags(store: Store) -> dict[str, tuple[Run, str]]:
    """Return every tag with the run that got it last, and when."""
    found: dict[str, tuple[Run, str]] = {}
    for run in store.runs():
        for name, when in tags_of(run).items():
            if name not in found or when > found[name][1]:
                found[name] = (run, when)
    return dict(sorted(found.items()))


def find_tagged(store: Store, name: str) -> Run:
    """Return the run that has a tag.

    Raises:
        UsageError: None has it.
    """
    tags = all_tags(store)
    if name not in tags:
        known = f"Tags: {', '.join(tags)}." if tags else "Tag one: leadline store tag RUN NAME"
        raise UsageError(f"No run in the store has the tag {name!r}.", hint=known, code=ErrorCode.STORE_TAG)
    return tags[name][0]


def set_tag(store: Store, run: Run, name: str) -> Run | None:
    """Give a run a tag, which the run that had it loses; returns that other run.

    The new run gets it first, so that a reader meanwhile finds one of the two runs.

    Raises:
        UsageError: The name is not one: letters, digits, ``.``, ``_`` and ``-`` are allowed. Or the run's results were
            dropped.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a tag.", hint="Use letters, digits, '.', '_' and '-'.", code=ErrorCode.STORE_TAG
        )
    before = all_tags(store).get(name)
    now = datetime.now(UTC).isoformat()
    run.change(lambda record: _tagged(run, record, name, now))
    for other in store.runs():
        if other.id != run.id and name in tags_of(other):
            remove_tag(other, name)
    return before[0] if before and before[0].id != run.id else None


def _tagged(run: Run, record: Mapping[str, Any], name: str, now: str) -> dict[str, Any]:
    if record.get(DROPPED):
        raise run.without_results()
    return dict(record) | {TAGS: tags_in(record) | {name: now}}


def remove_tag(run: Run, name: str) -> None:
    """Take a tag from a run.

    Raises:
        UsageError: It has none of that name.
    """
    if name not in tags_of(run):
        raise UsageError(
            f"Run {run.id} has no tag {name!r}.", hint="List tags: leadline store tag", code=ErrorCode.STORE_TAG
        )
    run.change(
        lambda record: dict(record) | {TAGS: {tag: when for tag, when in tags_in(record).items() if tag != name}}
    )
