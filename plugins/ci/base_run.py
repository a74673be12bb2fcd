"""The base branch's run: how a run is marked with its branch and commit, and found again.

A check writes to its run's record (``run.json``) for which check, branch and commit it was, and a run of a branch
itself, not of a change to it, gets the tag ``branch.NAME`` (``branch.NAME.CHECK`` for a check with a name), so that
``gc`` keeps it and people can name it. The base of a change is the run of its base branch at the commit that it was
made from; where there is none, the branch's youngest one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.plugins.ci.checkout import Checkout
from leadline.tasks.runs.lookup import status
from leadline.tasks.runs.tags import set_tag
from leadline.tasks.store.store import Run, Store

RECORD: Final = "ci"
"""Key of the mark in a run's record."""
_SHOWN: Final = 9
"""Digits of a commit that people are shown."""
_LONGEST: Final = 100
_NOT_IN_TAGS: Final = re.compile("[^0-9A-Za-z._-]+")


@dataclass(frozen=True, slots=True)
class BaseRun:
    """The run to compare with.

    Attributes:
        run: Its id; "" where there is none.
        words: Which one it is, or why there is none, in one sentence.
    """

    run: str
    words: str


def find_base(store: Store, check: str, checkout: Checkout) -> BaseRun:
    """Return the run of the base branch; that there is none is no error.

    Args:
        check: The check's name.
        checkout: What was checked out.
    """
    branch, commit = checkout.base_branch, checkout.base_commit
    if not branch:
        return BaseRun("", "Nothing says which branch this is to be compared with.")
    found = [(run, record) for run in store.runs() if _is_of(record := run.read(), check, branch)]
    if not found:
        first = "The first check of that branch with this store makes one."
        return BaseRun("", f"There is no run of the branch {branch} to compare with yet. {first}")
    run, record = max(found, key=lambda pair: (_mark(pair[1])["commit"] == commit != "", str(pair[1].get("started"))))
    of = str(_mark(record)["commit"])
    words = f"Compared with run {run.id} of the branch {branch}"
    if not of or not commit or of == commit:
        return BaseRun(run.id, f"{words}{f' at commit {of[:_SHOWN]}' if of else ''}.")
    return BaseRun(run.id, f"{words} at commit {of[:_SHOWN]}; commit {commit[:_SHOWN]}, its base, has no run.")


def mark_run(store: Store, run: Run, check: str, checkout: Checkout) -> str:
    """Record what a run was made of, and tag one of a branch itself; returns the tag, "" without one.

    Args:
        run: The run; completed.
        check: The check's name.
        checkout: What was checked out.
    """
    mark = {"check": check, "branch": checkout.branch, "commit": checkout.commit, "change": checkout.is_change}
    run.update({RECORD: mark | {"number": checkout.number}})
    if checkout.is_change or not checkout.branch:
        return ""
    tag = branch_tag(checkout.branch, check)
    set_tag(store, run, tag)
    return tag


def branch_tag(branch: str, check: str = "") -> str:
    """Return the tag of a branch's run; a name that is no tag, such as ``fix/tides``, gets a digest to tell it apart.

    Args:
        check: The check's name.
    """
    end = f".{check}" if check else ""
    name = _NOT_IN_TAGS.sub("-", branch)
    tag = f"branch.{name}{end}"
    if name == branch and len(tag) <= _LONGEST:
        return tag
    digest = hashlib.sha256(branch.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"branch.{name[: _LONGEST - len(end) - 16]}-{digest}{end}"


def _mark(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get(RECORD)
    return found if isinstance(found, Mapping) else {}


def _is_of(record: Mapping[str, Any], check: str, branch: str) -> bool:
    mark = _mark(record)
    wanted = {"check": check, "branch": branch, "change": False}
    return (
        bool(mark)
        and all(mark.get(name) == value for name, value in wanted.items())
        and (status(record) == "completed")
    )
