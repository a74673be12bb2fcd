"""The ledger in an SQLite file: the default, for any number of processes on one host; many writes per transaction.

In WAL mode with ``synchronous=NORMAL`` a transaction is a write into the system's page cache; it survives ``kill -9``
of this process as soon as it returns, and only a power cut can take the last moments. A thread does the writing: what
comes while a transaction is under way, and for :data:`GATHER_S` after, is done in the next one, so that the event loop
waits neither for a disk nor for other processes that write.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.db import sql
from leadline.tasks.ledger.operations import LATER_COLUMNS, Find, LedgerQuery, Operation, Work, described, perform

O = TypeVar("O", bound=Operation)  # noqa: E741

GATHER_S: Final = 0.003
"""Seconds for which operations gather; each transaction has statements of its own, which a few share."""

PATIENT_S: Final = 60.0
"""Seconds for which it is waited for another process's transaction; one takes a fraction of a millisecond."""

CHECKPOINT_PAGES: Final = 8_000
"""Pages of 4 KiB in the log that make SQLite bring them into the database, which takes a moment of disk time."""


CLOSING_S: Final = 5.0
"""Seconds for which the end of the process waits until what was given to the writer is durable."""


_Outcomes: TypeAlias = list[StoreError | None]
"""The error of each operation of a batch, ``None`` if it succeeded."""


class SqliteAccess:
    """Implements :class:`leadline.tasks.ledger.ledger.Access`.

    Args:
        path: The database; made if need be.

    Raises:
        StoreError: The database cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = connect(path, sql("ledger/schema"))
        self._reading = connect(path)
        self._find = sql("ledger/find").format(digests="(?)")
        self._writing.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._waiting: deque[Work] = deque()
        self._arrived = threading.Event()
        self._writer: threading.Thread | None = None
        self._ending = False
        self._process = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Write what waits, and let go of the database: the last process to do so brings the log into its file."""
        if os.getpid() != self._process:
            return  # a forked process has no right to the connections of the one it comes from
        if self._writer is not None:
            self._ending = True
            self._arrived.set()
            self._writer.join(CLOSING_S)
            if self._writer.is_alive():
                return  # another process holds the database; what is in the log is durable
        with suppress(sqlite3.Error):
            self._reading.close()
            self._writing.close()

    async def do(self, operation: O) -> O:
        """See :class:`leadline.tasks.ledger.ledger.Access`; readers do not wait."""
        if os.getpid() != self._process:  # SQLite's locks, open or opened anew, would not hold here
            raise StoreError(
                f"The ledger {self._path} was opened before this process was forked, which must not use it.",
                hint="Start processes by spawn or forkserver, or before anything is evaluated.",
                code=ErrorCode.LEDGER_FAILED,
            )
        if isinstance(operation, Find):  # each call makes one, in the event loop: by itself, it takes half the time
            try:
                found = self._reading.execute(self._find, (operation.digest,)).fetchone()
            except sqlite3.Error as error:
                raise unusable(self._path, error) from error
            operation.result = None if found is None else found[1:]
            return operation
        work = Work(operation, asyncio.get_running_loop().create_future())
        self._waiting.append(work)
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="leadline-ledger", daemon=True)
            self._writer.start()
        if not self._arrived.is_set():  # else the writer has yet to take what waits, this with it
            self._arrived.set()
        await work.future
        return operation

    def _write(self) -> None:
        """Write what waits, batch by batch; whoever waits for a batch is told when it is durable."""
        while not (self._ending and not self._waiting):
            self._arrived.wait()
            time.sleep(GATHER_S)
            self._arrived.clear()
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if batch:
                outcomes = self._run([work.operation for work in batch])
                for loop, done in _by_loop(batch, outcomes).items():
                    with suppress(RuntimeError):  # it was closed: nobody waits
                        loop.call_soon_threadsafe(_deliver, done)

    def _run(self, operations: list[Operation]) -> _Outcomes:
        """Do operations; never raises, since callers wait."""
        try:
            return self._in_one_transaction(operations) or self._one_by_one(operations)
        except Exception as error:
            return [unusable(self._path, error)] * len(operations)

    def _in_one_transaction(self, operations: list[Operation]) -> _Outcomes | None:
        """Do operations in one transaction; ``None`` where nothing was done, as one of them cannot be."""
        try:
            with self._transaction() as connection:
                _drive(connection, operations)
        except sqlite3.OperationalError:
            raise  # it is the database, not a value: a full disk, for example
        except Exception:
            return None
        return [None] * len(operations)

    def _one_by_one(self, operations: list[Operation]) -> _Outcomes:
        """Do operations so that one that cannot be done costs no other."""
        with self._transaction() as connection:
            return [self._alone(connection, operation) for operation in operations]

    def _alone(self, connection: sqlite3.Connection, operation: Operation) -> StoreError | None:
        connection.execute("SAVEPOINT alone")
        try:
            _drive(connection, [operation])
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO alone")
            return unusable(self._path, error, operation)
        connection.execute("RELEASE alone")
        return None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the database for a block; nothing is left open however it ends."""
        connection = self._writing
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _drive(connection: sqlite3.Connection, operations: list[Operation]) -> None:
    """Run the statements of operations one after the other."""
    statements = perform(operations)
    rows: list[tuple[Any, ...]] | None = None
    while True:
        try:
            statement = next(statements) if rows is None else statements.send(rows)
        except StopIteration:
            return
        rows = []
        if isinstance(statement, LedgerQuery):
            rows = connection.execute(statement.sql, statement.values).fetchall()
        elif len(statement.lines) == 1:
            connection.execute(statement.sql, statement.lines[0])
        else:
            connection.executemany(statement.sql, statement.lines)


_Done: TypeAlias = list[tuple[asyncio.Future[None], StoreError | None]]


def _by_loop(batch: list[Work], outcomes: _Outcomes) -> dict[asyncio.AbstractEventLoop, _Done]:
    loops: dict[asyncio.AbstractEventLoop, _Done] = {}
    for work, error in zip(batch, outcomes, strict=True):
        loops.setdefault(work.future.get_loop(), []).append((work.future, error))
    return loops


def _deliver(done: _Done) -> None:
    for future, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def read(path: Path, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a query while other processes write; none if there is no database or it has no tables yet.

    Raises:
        StoreError: The database cannot be read.
    """
    if not path.exists():
        return []
    with closing(connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(line) for line in connection.execute(statement, values)]
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return []
            raise unusable(path, error) from error


def connect(path: Path, schema: str = "") -> sqlite3.Connection:
    """Open a ledger.

    Args:
        schema: Statements that make its tables; without them it is only read, and must exist.

    Raises:
        StoreError: It cannot be opened.
    """
    try:
        if schema:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # SQLite gives its other files the same permissions
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
            _add_columns(connection)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _add_columns(connection: sqlite3.Connection) -> None:
    """Give the ledger of an earlier version the columns that it lacks."""

    def lacking() -> list[str]:
        known = {line[1] for line in connection.execute("PRAGMA table_info(asks)")}
        return [column for column in LATER_COLUMNS if column not in known]

    if lacking():
        connection.execute("BEGIN IMMEDIATE")
        try:
            for column in lacking():  # another process may have added them meanwhile
                connection.execute(sql("ledger/asks_columns").format(column=column))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def unusable(path: Path, error: Exception, operation: Operation | None = None) -> StoreError:
    """Return the error for a ledger that cannot be used, or that refused one operation."""
    if operation is not None:
        return StoreError(
            f"The ledger {path} cannot hold {described(operation)}: {error}.", code=ErrorCode.LEDGER_FAILED
        )
    return StoreError(
        f"The ledger {path} cannot be used: {error}.",
        hint="Set LEADLINE_LEDGER to another place.",
        code=ErrorCode.LEDGER_FAILED,
    )
