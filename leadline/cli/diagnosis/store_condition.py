"""The store: read, written, locked, and of the format of this version."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from leadline.cli.diagnosis.diagnosis import Diagnosis, State
from leadline.tasks.ground.locks import locked
from leadline.tasks.ledger.location import LEDGER_VARIABLE, ledger_place, require_ledger
from leadline.tasks.store.store import Store
from leadline.tasks.store.store_format import FORMAT, format_of


def examine_store(location: str | None) -> Iterator[Diagnosis]:
    """Yield the state of the store; one that is not there is not made.

    Args:
        location: The store, as ``--store`` names it.
    """
    named = location or os.environ.get("LEADLINE_STORE") or ".leadline"
    if "://" not in named and not Path(named).expanduser().exists():
        yield Diagnosis("store", State.OK, f"{named} is not there yet; the first run makes it")
        return
    store = Store.open(location)
    number = format_of(store.root)
    if number < FORMAT:
        advice = "leadline store migrate, when no run is at work"
        yield Diagnosis("store", State.MISSING, f"{named} has format {number}, today's is {FORMAT}", advice)
    else:
        yield Diagnosis("store", State.OK, f"{named}, format {number}")
    yield from _writable(store.root)
    if "://" not in named:
        yield from _permissions(store.root)
    yield from _ledger(store)


def _writable(root: Path) -> Iterator[Diagnosis]:
    probe = root / f".doctor-{os.getpid()}"
    try:
        with locked(probe):
            pass
    except OSError as error:
        if not os.access(root, os.W_OK):
            advice = f"Make {root} writable for this user, or name another store: --store DIR"
            yield Diagnosis("store", State.BROKEN, f"cannot be written: {error.strerror or error}", advice)
        else:
            advice = "Keep it on a file system with locks, or in a bucket"
            yield Diagnosis("store", State.BROKEN, f"its file system has no locks: {error.strerror or error}", advice)
    else:
        yield Diagnosis("store", State.OK, "can be written and locked")
    finally:
        probe.unlink(missing_ok=True)


def _permissions(root: Path) -> Iterator[Diagnosis]:
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & stat.S_IWOTH:
        advice = f"chmod o-w {root}"
        yield Diagnosis("store", State.BROKEN, f"every user of this machine may write it (mode {mode:o})", advice)
    else:
        others = "shared with others" if mode & 0o077 else "for its user alone"
        yield Diagnosis("store", State.OK, f"{others} (mode {mode:o})")


def _ledger(store: Store) -> Iterator[Diagnosis]:
    place = ledger_place(store)
    if isinstance(place, str):
        require_ledger()
        yield Diagnosis("ledger", State.OK, f"the PostgreSQL database of {LEDGER_VARIABLE} answers")
    elif not place.exists():
        yield Diagnosis("ledger", State.OK, f"{place.name} is made with the first call")
    else:
        from leadline.tasks.ledger.location import read_ledger

        read_ledger(store).teams("2026-01")
        yield Diagnosis("ledger", State.OK, f"{place.name} can be read")
