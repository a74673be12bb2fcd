"""Tags: names that people give to runs, such as ``production``. A tag stands in the record of the run that has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.store.store import DROPPED, TAGS, Run, Store

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

    Args:
        name: The tag.

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

    Args:
        name: The tag.

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

    Args:
        name: The tag.

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
