"""The location of the ledger: in the store, or at ``LEADLINE_LEDGER``."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Final

from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.evaluators.judge_client.budget import Limits
from leadline.tasks.ledger.ledger import Access, DatabaseLedger
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.postgres import PostgresAccess, require_postgres
from leadline.tasks.ledger.sqlite import SqliteAccess
from leadline.tasks.store.store import Store

LEDGER_VARIABLE: Final = "LEADLINE_LEDGER"
_POSTGRES: Final = ("postgresql://", "postgres://")


def new_name(kind: str) -> str:
    """Return a name under which the calls of a job are put on record; it sorts by time.

    Args:
        kind: The job, such as ``collect``.
    """
    return f"{kind}-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{token_hex(3)}"


def ledger_place(store: Store) -> Path | str:
    """Return the ledger's file, or the address of its PostgreSQL database.

    Raises:
        UsageError: The variable contains another kind of address.
    """
    given = os.environ.get(LEDGER_VARIABLE)
    if not given:
        return store.root / "ledger.sqlite"
    if given.startswith(_POSTGRES):
        return given
    if "://" in given:
        raise UsageError(
            f"{LEDGER_VARIABLE} is neither a file nor postgresql://USER:PASSWORD@HOST/DATABASE.",
            hint="Unset it to keep the ledger in the store.",
            code=ErrorCode.LEDGER_LOCATION,
        )
    return from_home(given).absolute()


def open_ledger(store: Store, run: str, limits: Limits | None = None) -> DatabaseLedger:
    """Open the ledger for the calls of one run.

    Args:
        run: Id of the run.
        limits: What the run may spend, in all processes that work on it together.
    """
    return ledger_at(ledger_place(store), run, limits)


def ledger_at(place: Path | str, run: str, limits: Limits | None = None) -> DatabaseLedger:
    """Open the ledger in a file or at an address, as :func:`open_ledger` does.

    Args:
        place: The file or the address.
        run: Id of the run.
        limits: What the run may spend, in all processes that work on it together.
    """
    return DatabaseLedger(_access(place), run, limits)


def require_ledger() -> None:
    """Check that a ledger in PostgreSQL can be used, before calls are made that are to be put on record there.

    Raises:
        UsageError: The address cannot be used.
        StoreError: The database cannot.
    """
    given = os.environ.get(LEDGER_VARIABLE, "")
    if given.startswith(_POSTGRES):
        require_postgres(given)


def read_ledger(store: Store) -> LedgerReader:
    """Return a reader of the store's ledger."""
    return LedgerReader(ledger_place(store))


_accesses: dict[Path | str, Access] = {}
_lock = Lock()


def _access(place: Path | str) -> Access:
    """Return the process's one access to a database."""
    with _lock:
        if place not in _accesses:
            _accesses[place] = SqliteAccess(place) if isinstance(place, Path) else PostgresAccess(place)
        return _accesses[place]
