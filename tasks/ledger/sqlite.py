"""The ledger in an SQLite file: the default, for any number of processes on one host; many writes per transaction.

In WAL mode with ``synchronous=NORMAL`` a transaction is a write into the system's page cache, some 50 microseconds; it
survives ``kill -9`` of this process as soon as it returns, and only a power cut can take the last moments. That is less
than handing it to a thread costs, which has to wait for the interpreter's lock after every statement while the loop is
busy. So writes are done in the loop: those of one of its rounds together, or at once where a call waits for its place
in flight. Only when another process holds the database longer than ``QUICK_S`` does a thread wait for it, so that the
loop never does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import StoreError
from leadline.tasks.db.statements import sql
from leadline.tasks.ledger.operations import Find, Intend, Operation, Query, described, perform

O = TypeVar("O", bound=Operation)  # noqa: E741

QUICK_S: Final = 0.02
"""Seconds for which the event loop waits for another process's transaction; one takes a fraction of this."""

PATIENT_S: Final = 60.0
"""Seconds for which a thread waits for it."""

CHECKPOINT_PAGES: Final = 8_000
"""Pages of 4 KiB in the log that make SQLite bring them into the database, which takes a moment of disk time."""


class _Work(NamedTuple):
    operation: Operation
    future: asyncio.Future[None]


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
        self._writing.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._waiting: list[_Work] = []
        self._scheduled = False
        self._thread_at_it = False

    async def do(self, operation: O) -> O:
        """See :class:`leadline.tasks.ledger.ledger.Access`; readers do not wait."""
        if isinstance(operation, Find):
            try:
                _drive(self._reading, [operation])
            except sqlite3.Error as error:
                raise unusable(self._path, error) from error
            return operation
        loop = asyncio.get_running_loop()
        work = _Work(operation, loop.create_future())
        self._waiting.append(work)
        if isinstance(operation, Intend):
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._end_of_round)
        await work.future
        return operation

    def _end_of_round(self) -> None:
        self._scheduled = False
        self._flush()

    def _flush(self) -> None:
        """Write what waits, unless a thread is at it, which will see to it afterwards."""
        if self._thread_at_it or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        try:
            _deliver(batch, self._run(batch, QUICK_S))
        except _Locked:
            self._thread_at_it = True
            waiting = asyncio.get_running_loop().run_in_executor(None, self._run_patiently, batch)
            waiting.add_done_callback(lambda done: self._thread_is_done(batch, done))

    def _thread_is_done(self, batch: list[_Work], done: asyncio.Future[_Outcomes]) -> None:
        self._thread_at_it = False
        _deliver(batch, done.result())
        self._flush()

    def _run_patiently(self, batch: list[_Work]) -> _Outcomes:
        try:
            return self._run(batch, PATIENT_S)
        except _Locked as error:
            return [unusable(self._path, error)] * len(batch)

    def _run(self, batch: list[_Work], patience: float) -> _Outcomes:
        """Run a batch; raises :class:`_Locked` when another process does not let go, and nothing else: callers wait."""
        operations = [work.operation for work in batch]
        try:
            return self._in_one_transaction(operations, patience) or self._one_by_one(operations, patience)
        except _Locked:
            raise
        except Exception as error:
            return [unusable(self._path, error)] * len(batch)

    def _in_one_transaction(self, operations: list[Operation], patience: float) -> _Outcomes | None:
        """Do operations in one transaction; ``None`` where nothing was done, as one of them cannot be."""
        try:
            with self._transaction(patience) as connection:
                _drive(connection, operations)
        except (_Locked, sqlite3.OperationalError):
            raise  # it is the database, not a value: a full disk, for example
        except Exception:
            return None
        return [None] * len(operations)

    def _one_by_one(self, operations: list[Operation], patience: float) -> _Outcomes:
        """Do operations so that one that cannot be done costs no other."""
        with self._transaction(patience) as connection:
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
    def _transaction(self, patience: float) -> Iterator[sqlite3.Connection]:
        """Hold the database for a block; nothing is left open however it ends."""
        connection = self._writing
        connection.execute(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
        _begin(connection)
        try:
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


class _Locked(Exception):
    """Another process is writing."""


def _begin(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise _Locked("another process holds it") from None
        raise


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
        if isinstance(statement, Query):
            rows = connection.execute(statement.sql, statement.values).fetchall()
        elif len(statement.lines) == 1:
            connection.execute(statement.sql, statement.lines[0])
        else:
            connection.executemany(statement.sql, statement.lines)


def _deliver(batch: list[_Work], outcomes: _Outcomes) -> None:
    for work, error in zip(batch, outcomes, strict=True):
        if work.future.done():
            continue
        if error is None:
            work.future.set_result(None)
        else:
            work.future.set_exception(error)


def read(path: Path, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a query while other processes write; none if there is no database or it has no tables yet.

    Args:
        path: The database.
        statement: The query.
        values: Its parameters by name.

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


def unusable(path: Path, error: Exception, operation: Operation | None = None) -> StoreError:
    """Return the error for a ledger that cannot be used, or that refused one operation.

    Args:
        path: The database.
        error: The error.
        operation: The operation, if only one was refused.
    """
    if operation is not None:
        return StoreError(
            f"The ledger {path} cannot hold {described(operation)}: {error}.", code=ErrorCode.LEDGER_FAILED
        )
    return StoreError(
        f"The ledger {path} cannot be used: {error}.",
        hint="Set LEADLINE_LEDGER to another place.",
        code=ErrorCode.LEDGER_FAILED,
    )
