"""One thread that does all that a process asks of its SQLite ledger, many operations per transaction.

An operation is a function of the connection. Those that have gathered while the last transaction was written go into
the next one, so that a thousand calls a second cost a few dozen commits. In WAL mode with ``synchronous=NORMAL`` a
commit survives ``kill -9`` of this process as soon as it returns; only a power cut can take the last moments.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from evaluators.errors import StoreError

T = TypeVar("T")

BUSY_S: Final = 60.0
"""How long a transaction waits for another process's."""

MOST: Final = 500
"""Operations in a transaction."""


class _Work(NamedTuple):
    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Writer:
    """Runs operations in one thread; ``do`` may be awaited in any loop.

    Args:
        path: The database; made if need be.
        schema: Statements that make its tables where they do not exist.

    Raises:
        StoreError: The database cannot be opened.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._connection = connect(path, schema)
        self._thread = threading.Thread(target=self._serve, name="leadline-ledger", daemon=True)
        self._thread.start()

    async def do(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation and return its result once it is durable.

        Raises:
            StoreError: The database cannot be written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Work(operation, future, loop))
        return await future

    def close(self) -> None:
        """Finish what was asked for and close the database."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        try:
            while (first := self._queue.get()) is not None:
                batch, last = self._gather(first)
                self._run(batch)
                if last:
                    return
        finally:
            self._connection.close()

    def _gather(self, first: _Work) -> tuple[list[_Work], bool]:
        batch = [first]
        try:
            while len(batch) < MOST:
                work = self._queue.get_nowait()
                if work is None:
                    return batch, True
                batch.append(work)
        except Empty:
            pass
        return batch, False

    def _run(self, batch: list[_Work]) -> None:
        results: list[tuple[_Work, Any]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work in batch:
                try:
                    results.append((work, work.operation(self._connection)))
                except (sqlite3.IntegrityError, sqlite3.InterfaceError, ValueError, TypeError) as error:
                    results.append((work, error))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failure = unusable(self._path, error)
            results = [(work, failure) for work in batch]
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Work, Any]]] = {}
        for work, result in results:
            by_loop.setdefault(work.loop, []).append((work, result))
        for loop, mine in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, mine)


def _deliver(results: list[tuple[_Work, Any]]) -> None:
    for work, result in results:
        if work.future.done():
            continue
        if isinstance(result, Exception):
            work.future.set_exception(result)
        else:
            work.future.set_result(result)


def connect(path: Path, schema: str = "") -> sqlite3.Connection:
    """Open a ledger for any one thread at a time.

    Args:
        path: The database.
        schema: Statements that make its tables; without them it is only read, and must exist.

    Raises:
        StoreError: It cannot be opened.
    """
    try:
        if schema:
            path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
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
    deadline = time.monotonic() + BUSY_S
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
