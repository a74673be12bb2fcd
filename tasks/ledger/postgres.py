"""The ledger in PostgreSQL: for workers on many hosts. Its tables lie in the schema ``leadline``.

Operations that wait are done together in one transaction, pipelined, so that a batch costs a few round trips however
large it is; while one is under way, the next gathers. A connection that is lost is made again and the batch repeated,
which changes nothing if its transaction was committed after all.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leadline.evaluators.ground import ErrorCode, StoreError, UsageError, without_secrets
from leadline.tasks.db import sql
from leadline.tasks.ground.outages import FIRST_PAUSE_S, next_pause_s, server_wait_s
from leadline.tasks.ground.processes import BEAT_S, this_process
from leadline.tasks.ledger.operations import (
    LATER_COLUMNS,
    Beat,
    End,
    Intend,
    LedgerQuery,
    Operation,
    Work,
    described,
    perform,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection

O = TypeVar("O", bound=Operation)  # noqa: E741
T = TypeVar("T")

log = logging.getLogger("leadline.ledger")

CONNECT_S: Final = 10
STATEMENT_S: Final = 30
BATCH_S: Final = 45.0
"""Deadline of a transaction with all its round trips."""

LARGEST_BATCH: Final = 500

_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba|permission denied|could not translate host"
)
"""What libpq says where a server, a database or a role is not what the address says; it has no code for that."""

_NAMED: Final = re.compile(r"(?<![:\w]):(\w+)")
_OPTIONS: Final = f"-c search_path=leadline -c statement_timeout={STATEMENT_S}s"
_SETTINGS: Final[dict[str, Any]] = {
    "connect_timeout": str(CONNECT_S),
    "application_name": "leadline",
    "options": _OPTIONS,
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class PostgresAccess:
    """Implements :class:`leadline.tasks.ledger.ledger.Access`.

    Args:
        url: Address of the database, as libpq takes it.

    Raises:
        UsageError: It is no address, or psycopg is not installed.
        StoreError: The database cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        _make_tables(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._waiting: list[Work] = []
        self._pump: asyncio.Task[None] | None = None
        self._begun = 0
        self._next_beat = 0.0

    async def do(self, operation: O) -> O:
        """See :class:`leadline.tasks.ledger.ledger.Access`."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a connection belongs to the loop that made it
            self._loop, self._connection, self._pump, self._waiting = loop, None, None, []
            self._begun, self._next_beat = 0, 0.0
        work = Work(operation, loop.create_future())
        self._waiting.append(work)
        if self._pump is None:
            self._pump = loop.create_task(self._empty())
        try:
            await work.future
        finally:
            if isinstance(operation, End):  # also where it cannot be put on record
                self._begun -= 1
        if isinstance(operation, Intend) and operation.admitted:
            self._begin()
        return operation

    async def _empty(self) -> None:
        """Do what waits, batch by batch, until nothing does."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
                outcomes = await self._outcomes([work.operation for work in batch])
                for work, error in zip(batch, outcomes, strict=True):
                    if work.future.done() or isinstance(work.operation, Beat):
                        continue  # no caller awaits it
                    if error is None:
                        work.future.set_result(None)
                    else:
                        work.future.set_exception(error)
        finally:
            self._pump = None

    async def _outcomes(self, operations: list[Operation]) -> list[StoreError | None]:
        """Do operations together; where one cannot be done, half by half, so that it costs no other."""
        error = await self._persist(operations)
        if error is None:
            return [None] * len(operations)
        if not _is_of_a_value(error):
            return [unusable(self._url, error)] * len(operations)
        if len(operations) == 1:
            return [unusable(self._url, error, operations[0])]
        half = len(operations) // 2
        return await self._outcomes(operations[:half]) + await self._outcomes(operations[half:])

    async def _persist(self, operations: list[Operation]) -> Exception | None:
        """Do operations until it succeeds, cannot succeed, or took too long; returns why it did not."""
        psycopg = _psycopg()
        deadline, again, pause = time.monotonic() + server_wait_s(), False, 0.0
        while True:
            try:
                async with asyncio.timeout(BATCH_S):
                    await self._run(operations, again)
                return None
            except (psycopg.OperationalError, TimeoutError) as error:  # lost, too slow, or in each other's way
                await self._drop()
                again = True
                if time.monotonic() > deadline or (isinstance(error, psycopg.OperationalError) and _is_refusal(error)):
                    return error
            except Exception as error:  # a value can be refused by any part that it passes: callers wait
                await self._drop()
                return error
            if pause == FIRST_PAUSE_S:  # a connection that was lost and could be made again is no news
                _say_away()
            pause = next_pause_s(pause)
            await asyncio.sleep(pause)

    async def _run(self, operations: list[Operation], again: bool) -> None:
        if self._connection is None:
            self._connection = await _psycopg().AsyncConnection.connect(
                self._url, autocommit=True, **_settings(self._url)
            )
        connection = self._connection
        async with connection.pipeline(), connection.transaction():
            await _drive(connection, operations, again)

    async def _drop(self) -> None:
        """Close a connection whose state is unknown."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _begin(self) -> None:
        """Note that a call is in flight, and see to it that this process is heard of while there are any."""
        self._begun += 1
        if self._loop is not None and time.monotonic() >= self._next_beat:
            self._beat()

    def _beat(self) -> None:
        loop = self._loop
        if self._begun <= 0 or loop is None or loop.is_closed():
            self._next_beat = 0.0
            return
        self._next_beat = time.monotonic() + 2 * BEAT_S
        self._waiting.append(Work(Beat((this_process(), time.time())), loop.create_future()))
        if self._pump is None:
            self._pump = loop.create_task(self._empty())
        loop.call_later(BEAT_S, self._beat)


def require_postgres(url: str) -> None:
    """Check that a database can be used, without waiting for its server: nothing was begun yet.

    Raises:
        UsageError: It is no address, or psycopg is not installed.
        StoreError: The database cannot be used.
    """
    try:
        _make_tables_now(url)
    except _psycopg().Error as error:
        raise unusable(url, error) from None


def _patiently(url: str, do: Callable[[], T]) -> T:
    """Do something with a database; where its server is away, do it again until it is back or was away for too long.

    Raises:
        StoreError: The database cannot be used.
    """
    psycopg = _psycopg()
    deadline, pause = time.monotonic() + server_wait_s(), 0.0
    while True:
        try:
            return do()
        except psycopg.Error as error:
            lost = isinstance(error, psycopg.OperationalError) and not _is_refusal(error)
            if not lost or time.monotonic() > deadline:
                raise unusable(url, error) from None
        if not pause:
            _say_away()
        pause = next_pause_s(pause)
        time.sleep(pause)


def _say_away() -> None:
    log.warning("The ledger's server does not answer; it is waited for, %.0f s at most.", server_wait_s())


def _is_refusal(error: Exception) -> bool:
    """Return whether a server that is there turned a connection down, which no wait changes."""
    return bool(_REFUSED.search(str(error)))


def _is_of_a_value(error: Exception) -> bool:
    """Return whether an error comes from what was to be stored, and not from the database or the way to it."""
    psycopg = _psycopg()
    values = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.DatatypeMismatch)
    if isinstance(error, values) or type(error) is psycopg.ProgrammingError:  # the latter where it cannot be adapted
        return True
    return not isinstance(error, psycopg.Error | OSError)  # of which the deadline's TimeoutError is one


async def _drive(connection: AsyncConnection[tuple[Any, ...]], operations: list[Operation], again: bool) -> None:
    """Run the statements of operations; only queries wait for the server.

    Each has a cursor of its own: in a pipeline, results that come late would be taken for those of a later statement.
    """
    statements = perform(operations, again=again)
    rows: list[tuple[Any, ...]] | None = None
    while True:
        try:
            statement = next(statements) if rows is None else statements.send(rows)
        except StopIteration:
            return
        text = statement.sql.replace("?", "%s").encode()
        rows = []
        async with connection.cursor() as cursor:
            if isinstance(statement, LedgerQuery):
                rows = await (await cursor.execute(text, statement.values)).fetchall()
            else:
                await cursor.executemany(text, statement.lines)


def read(url: str, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a query with ``:name`` parameters; where no tables were made yet, there are none.

    Raises:
        UsageError: The address is none, or psycopg is not installed.
        StoreError: The database cannot be read.
    """
    psycopg = _psycopg()
    text = _NAMED.sub(r"%(\1)s", statement.replace("%", "%%")).encode()

    def ask() -> list[dict[str, Any]]:
        settings = _settings(url)
        try:
            with psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row, **settings) as connection:
                return [dict(row) for row in connection.execute(text, values)]
        except psycopg.errors.UndefinedTable:
            return []

    return _patiently(url, ask)


def shown(url: str) -> str:
    """Return the address of a database without its credentials."""
    try:
        parts = _psycopg().conninfo.conninfo_to_dict(url)
    except Exception:  # it is no address; whatever it is may contain a password
        return "in PostgreSQL"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{parts.get('host', 'localhost')}{port}/{parts.get('dbname', '')}"


def unusable(url: str, error: BaseException, operation: Operation | None = None) -> StoreError:
    """Return the error for a ledger that cannot be used, or that refused one operation; without its credentials."""
    reason = str(error) or type(error).__name__
    try:
        parts = _psycopg().conninfo.conninfo_to_dict(url)
    except Exception:
        reason, parts = "its address cannot be read", {}
    for secret in {str(parts.get("password") or ""), url} - {""}:
        reason = reason.replace(secret, "[key]")
    reason = without_secrets(reason).rstrip(". ")
    if operation is not None:
        return StoreError(
            f"The ledger {shown(url)} cannot hold {described(operation)}: {reason}.", code=ErrorCode.LEDGER_FAILED
        )
    return StoreError(
        f"The ledger {shown(url)} cannot be used: {reason}.",
        hint="Look at LEADLINE_LEDGER.",
        code=ErrorCode.LEDGER_FAILED,
    )


def _make_tables(url: str) -> None:
    _patiently(url, lambda: _make_tables_now(url))


def _make_tables_now(url: str) -> None:
    psycopg = _psycopg()
    schema = "CREATE SCHEMA IF NOT EXISTS leadline; SET LOCAL search_path TO leadline;" + sql("ledger/schema")
    with psycopg.connect(url, **_settings(url)) as connection:
        # Two that make them at once would get into each other's way.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('leadline.ledger'))")
        found = connection.execute("SELECT to_regclass('leadline.drift_checks') IS NOT NULL").fetchone()
        if found == (True,):
            return
        connection.execute(schema.encode())
        for column in LATER_COLUMNS:
            connection.execute(sql("ledger/asks_columns").format(column=f"IF NOT EXISTS {column}").encode())


def _settings(url: str) -> dict[str, Any]:
    """Return the settings that the address does not have."""
    given = _psycopg().conninfo.conninfo_to_dict(url)
    settings = {name: value for name, value in _SETTINGS.items() if name not in given}
    if "options" in given:
        settings["options"] = f"{given['options']} {_OPTIONS}"
    return settings


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "A ledger in PostgreSQL needs psycopg.",
            hint="Install it: pip install -c constraints.txt -e '.[service]'",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from error
    return psycopg
