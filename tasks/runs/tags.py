"""Tags: names that people give to runs, such as ``production``. A tag stands in the record of the run that has it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.tasks.store.store import Run, Store

_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


def tags_of(run: Run) -> dict[str, str]:
    """Return a run's tags with the ISO times at which it got them."""
    found = run.read().get("tags")
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
        store: The store.
        name: The tag.

    Raises:
        UsageError: None has it.
    """
    tags = all_tags(store)
    if name not in tags:
        known = f"Tags: {', '.join(tags)}." if tags else "Tag one: leadline tag RUN NAME"
        raise UsageError(f"No run in the store has the tag {name!r}.", hint=known, code=ErrorCode.STORE_TAG)
    return tags[name][0]


def set_tag(store: Store, run: Run, name: str) -> Run | None:
    """Give a run a tag, which the run that had it loses; returns that other run.

    The new run gets it first, so that a reader meanwhile finds one of the two runs.

    Args:
        store: The store.
        run: The run.
        name: The tag.

    Raises:
        UsageError: The name is not one: letters, digits, ``.``, ``_`` and ``-`` are allowed.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a tag.", hint="Use letters, digits, '.', '_' and '-'.", code=ErrorCode.STORE_TAG
        )
    before = all_tags(store).get(name)
    run.update({"tags": tags_of(run) | {name: datetime.now(UTC).isoformat()}})
    for other in store.runs():
        if other.id != run.id and name in tags_of(other):
            remove_tag(other, name)
    return before[0] if before and before[0].id != run.id else None


def remove_tag(run: Run, name: str) -> None:
    """Take a tag from a run.

    Args:
        run: The run.
        name: The tag.

    Raises:
        UsageError: It has none of that name.
    """
    tags = tags_of(run)
    if name not in tags:
        raise UsageError(f"Run {run.id} has no tag {name!r}.", hint="List tags: leadline tag", code=ErrorCode.STORE_TAG)
    run.update({"tags": {other: when for other, when in tags.items() if other != name}})
