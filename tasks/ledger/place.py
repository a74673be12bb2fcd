"""Where the ledger is: beside the store's scores, or where ``LEADLINE_LEDGER`` says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from evaluators.errors import UsageError
from tasks.ledger.report import LedgerReader
from tasks.ledger.sqlite import SqliteLedger
from tasks.store import Store

LEDGER_VARIABLE: Final = "LEADLINE_LEDGER"


def ledger_path(store: Store) -> Path:
    """Return the ledger's file.

    Raises:
        UsageError: The variable holds an address instead.
    """
    given = os.environ.get(LEDGER_VARIABLE)
    if not given:
        return store.root / "ledger.sqlite"
    if "://" in given:
        raise UsageError(f"{LEDGER_VARIABLE} must be a file.", hint="Unset it to keep the ledger in the store.")
    return Path(given).expanduser().absolute()


def open_ledger(store: Store, run: str) -> SqliteLedger:
    """Open the ledger for the calls of one run."""
    return SqliteLedger(ledger_path(store), run)


def read_ledger(store: Store) -> LedgerReader:
    """Return a reader of the store's ledger."""
    return LedgerReader(ledger_path(store))
