"""Heartbeats of runs: which are being made, and which were lost with the process that made them.

While a run is being made, ``<store>/alive/<run>.json`` has its process and the time of the last beat. The file goes
when the run's record says how it ended. A process of this host can be looked for; one of another host, which a store
in a bucket or on a shared disk may have, is gone when it has not beaten for a while. A run whose process is gone is
*lost*: nobody could write down how it ended. Whoever finds that writes it down.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.ground.files import write_json
from leadline.tasks.ground.processes import has_ended, is_alive, process_of, process_record
from leadline.tasks.store.store import ENDED, Run, Store

log = logging.getLogger("leadline.runs")

BEAT_S: Final = 30.0
"""Seconds between two heartbeats."""

SILENT_S: Final = 600.0
"""Seconds without a sign of life after which a run of another host is lost; allows for clocks that differ."""

LAST_BEAT_S: Final = 5.0
"""Longest wait for a sign that is just being written when a run ends."""

LOST: Final = "lost"
REASON: Final = "Its process ended without a word. What it had computed is kept: the same command goes on from there."

_FOLDER: Final = "alive"


def give_sign(store: Store, run: Run) -> None:
    """Write down that somebody is at a run now."""
    path = _place(store, run.id)
    write_json(path, {"process": process_record(), "beat": time.time()})
    store.push([path])


@contextmanager
def giving_signs(store: Store, run: Run) -> Iterator[None]:
    """Give signs of life of a run while the block runs.

    They end with the block if the run's record says by then how it ended; otherwise the run is found to be lost.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            try:
                give_sign(store, run)
            except (OSError, LeadlineError) as error:  # the store may be back for the next beat
                log.info("No sign of life of run %s could be written: %s", run.id, error)

    beating = threading.Thread(target=beat, name="leadline-alive", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join(LAST_BEAT_S)  # else a sign that is just being written would come after the end
        _end(store, run)


def _end(store: Store, run: Run) -> None:
    """Remove the signs of a run that has ended; what cannot be removed is found by :func:`record_lost`."""
    try:
        if run.read().get("status") in ENDED:
            store.discard(_place(store, run.id))
    except (OSError, LeadlineError) as error:
        log.info("The signs of life of run %s stay: %s", run.id, error)


def is_lost(run: Run, record: Mapping[str, Any]) -> bool:
    """Return whether a run's record says that it is being made although its process is gone."""
    if record.get("status") != "running":
        return False
    process = process_of(record.get("process"))
    if not process:
        return False
    if has_ended(process):
        return True
    return not is_alive(process) and _is_silent(run)


def record_lost(store: Store) -> list[str]:
    """Write into the records of lost runs that they are lost, and return their ids.

    What cannot be written, as in a store that is only for reading, is left to others.
    """
    lost = []
    try:
        signed = _signed(store)
    except (OSError, LeadlineError) as error:
        log.info("Lost runs are not recorded: %s", error)
        return []
    for id_ in signed:
        try:
            if _settle(store, store.run(id_)):
                lost.append(id_)
        except (OSError, LeadlineError) as error:
            log.info("Whether run %s is lost is not recorded: %s", id_, error)
    return lost


def _settle(store: Store, run: Run) -> bool:
    """Record a run with signs of life as lost if it is; signs of a run that has ended or never began are removed."""
    store.fetch_record(run)
    record = run.read() if (run.path / "run.json").exists() else {}
    if record.get("status") == "running" and not is_lost(run, record):
        return False
    if not record and not _is_silent(run):
        return False  # it is just about to begin
    if record.get("status") == "running":
        run.update({"status": LOST, "error": REASON})
    store.discard(_place(store, run.id))
    return record.get("status") == "running"


def _is_silent(run: Run) -> bool:
    """Return whether the last sign of a run is too old; a run without any was made before there were signs."""
    path = run.path.parent.parent / _FOLDER / f"{run.id}.json"
    if run.remote:
        run.remote.fetch([path])
    try:
        beat = float(json.loads(path.read_text(encoding="utf-8"))["beat"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return time.time() - beat > SILENT_S


def _signed(store: Store) -> list[str]:
    """Return the runs with signs of life."""
    folder = store.root / _FOLDER
    names = {path.name for path in folder.glob("[!.]*.json")}
    if store.remote:
        names |= {Path(name).name for name in store.remote.names(folder)}
    return sorted(name.removesuffix(".json") for name in names)


def _place(store: Store, run_id: str) -> Path:
    return store.root / _FOLDER / f"{run_id}.json"
