"""A process's access to its SQLite ledger from the judges' event loop: many writes per transaction, no thread.

An operation is a function of the connection. In WAL mode with ``synchronous=NORMAL`` a transaction is a write into the
system's page cache, some 50 microseconds; it survives ``kill -9`` of this process as soon as it returns, and only a
power cut can take the last moments. That is less than handing it to a thread costs, which has to wait for the
interpreter's lock after every statement while the loop is busy. So writes are done in the loop: those of one of its
rounds together, or at once where a call waits for its place in flight. Only when another process holds the database
longer than ``QUICK_S`` does a thread wait for it, so that the loop never does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from evaluators.errors import StoreError

T = TypeVar("T")

QUICK_S: Final = 0.02
"""How long the loop itself waits for another process's transaction; they take a fraction of this."""

PATIENT_S: Final = 60.0
"""How long a thread waits for it."""

CHECKPOINT_PAGES: Final = 8_000
"""Pages of 4 KiB in the log that make SQLite bring them into the database, which takes a moment of disk time."""


class _Work(NamedTuple):
    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


_Results = list[tuple[_Work, Any]]


class Writer:
    """Runs operations on a database; to be used in one event loop at a time.

    Args:
        path: The database; made if need be.
        schema: Statements that make its tables where they do not exist.

    Raises:
        StoreError: The database cannot be opened.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._writing = connect(path, schema)
        self._reading = connect(path)
        self._writing.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._waiting: list[_Work] = []
        self._scheduled = False
        self._thread_at_it = False

    def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Return what an operation reads; readers wait for nobody.

        Raises:
            StoreError: The database cannot be read.
        """
        try:
            return operation(self._reading)
        except sqlite3.Error as error:
            raise unusable(self._path, error) from error

    async def write(self, operation: Callable[[sqlite3.Connection], T], *, at_once: bool = False) -> T:
        """Run an operation and return its result once it is durable.

        Args:
            operation: What to do.
            at_once: Do not wait for the end of the loop's round.

        Raises:
            StoreError: The database cannot be written.
        """
        loop = asyncio.get_running_loop()
        work = _Work(operation, loop.create_future())
        self._waiting.append(work)
        if at_once:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._end_of_round)
        return await work.future  # type: ignore[no-any-return]

    def _end_of_round(self) -> None:
        self._scheduled = False
        self._flush()

    def _flush(self) -> None:
        """Write what waits, unless a thread is at it, which will see to it afterwards."""
        if self._thread_at_it or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        try:
            _deliver(self._run(batch, QUICK_S))
        except _Locked:
            self._thread_at_it = True
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._run_patiently, batch).add_done_callback(self._thread_is_done)

    def _thread_is_done(self, done: asyncio.Future[_Results]) -> None:
        self._thread_at_it = False
        _deliver(done.result())
        self._flush()

    def _run_patiently(self, batch: list[_Work]) -> _Results:
        try:
            return self._run(batch, PATIENT_S)
        except _Locked as error:
            return [(work, unusable(self._path, error)) for work in batch]

    def _run(self, batch: list[_Work], patience: float) -> _Results:
        """Run a batch in one transaction; raises :class:`_Locked` when another process does not let go."""
        connection = self._writing
        try:
            connection.execute(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise _Locked("another process holds it") from None
            return [(work, unusable(self._path, error)) for work in batch]
        results: _Results = []
        try:
            for work in batch:
                try:
                    results.append((work, work.operation(connection)))
                except (sqlite3.IntegrityError, sqlite3.InterfaceError, ValueError, TypeError) as error:
                    results.append((work, error))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return [(work, unusable(self._path, error)) for work in batch]
        return results


class _Locked(Exception):
    """Another process is writing."""


def _deliver(results: _Results) -> None:
    for work, result in results:
        if work.future.done():
            continue
        if isinstance(result, Exception):
            work.future.set_exception(result)
        else:
            work.future.set_result(result)


def connect(path: Path, schema: str = "") -> sqlite3.Connection:
    """Open a ledger.

    Args:
        path: The database.
        schema: Statements that make its tables; without them it is only read, and must exist.

    Raises:
        StoreError: It cannot be opened.
    """
    try:
        if schema:
            path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=PATIENT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        if schema:
            _prepare(connection, schema)
        else:
            connection.execute("PRAGMA query_only = ON")
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from error
    return connection


def _prepare(connection: sqlite3.Connection, schema: str) -> None:
    """Make the tables; the change to WAL mode does not wait for others by itself, as everything else does."""
    deadline = time.monotonic() + PATIENT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN IMMEDIATE; {schema} COMMIT;")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def unusable(path: Path, error: Exception) -> StoreError:
    """Return the error that says that a ledger cannot be used."""
    return StoreError(f"The ledger {path} cannot be used: {error}.", hint="Set LEADLINE_LEDGER to another place.")
