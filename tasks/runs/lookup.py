"""Finding runs in the store, and their status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.ground.processes import has_ended, process_of
from leadline.tasks.runs.signs_of_life import LOST
from leadline.tasks.store.store import DROPPED, Run, Store

_LATEST: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")
_INTERRUPTIONS: Final = ("KeyboardInterrupt", "TerminationSignal")


def find_run(store: Store, name: str) -> Run:
    """Return the run that a name stands for: its id, a prefix that only it has, ``latest``, or ``tag:NAME``.

    ``latest`` is the youngest run that was completed, ``latest~1`` the completed one before it, and so on.

    Raises:
        UsageError: There is none, or the prefix fits several.
    """
    if name.startswith("tag:"):
        from leadline.tasks.runs.tags import find_tagged

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
    completed = (run for run in reversed(runs) if status(run.read()) == "completed")
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
    here, and :mod:`leadline.tasks.runs.signs_of_life` knows more.
    """
    stated = str(record.get("status", "running"))
    if stated == "completed" and record.get(DROPPED):
        return DROPPED
    if stated == "failed" and str(record.get("error")).startswith(_INTERRUPTIONS):
        return "interrupted"
    process = process_of(record.get("process"))
    return LOST if stated == "running" and process and has_ended(process) else stated
