"""The ledger of one run in this process, whichever database it is kept in: in the store, or at ``LEADLINE_LEDGER``."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.calls import BegunElsewhere, Call, Charge, Reply
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.ground.files import digest
from leadline.tasks.ground.processes import this_process
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.operations import Account, End, Find, Intend, KeepCheck, Operation, Read, pack, unpack
from leadline.tasks.ledger.postgres import PostgresAccess, require_postgres
from leadline.tasks.ledger.sqlite import SqliteAccess
from leadline.tasks.store.store import Store

O = TypeVar("O", bound=Operation)  # noqa: E741


class Access(Protocol):
    """A process's access to the database of a ledger; to be used in one event loop at a time."""

    async def do(self, operation: O) -> O:
        """Do an operation and return it once it is durable.

        Raises:
            StoreError: The database cannot be used.
        """


class _Open(NamedTuple):
    """A call that was begun: the number of its ask, the budgets that it counts against, and the money set aside."""

    ask: int
    accounts: tuple[Account, ...] = ()
    reserved: float = 0.0


class DatabaseLedger:
    """Implements :class:`leadline.evaluators.judge_client.calls.Ledger` for the calls of one run in this process.

    Args:
        limits: What the run may spend, in all processes that work on it together.
        server_limits: The folder in which it is kept how many calls servers take at once; ``None`` for none.
    """

    def __init__(
        self, access: Access, run: str, limits: Limits | None = None, server_limits: Path | None = None
    ) -> None:
        self.server_limits = server_limits
        self._access = access
        self._run = run
        self._limits = limits or Limits()
        self._pid, self._process = os.getpid(), this_process()
        self._open: defaultdict[str, list[_Open]] = defaultdict(list)
        self._judges: set[str] = set()
        self._last_judge: tuple[Mapping[str, Json], str] = ({}, digest({}))

    async def find(self, digest: str) -> Reply | None:
        """See :class:`leadline.evaluators.judge_client.calls.Ledger`."""
        return self._reply((await self._access.do(Find(digest))).result)

    async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
        """See :class:`leadline.evaluators.judge_client.calls.Ledger`."""
        self._forget_if_forked()
        judge = self._judge_digest(call.judge)
        ask = _next_ask()
        operation = Intend(
            ask=ask,
            judge=None if judge in self._judges else _judge(judge, call),
            call=(
                call.digest, judge, call.trial, call.attempt,
                _dumped(call.messages), None if call.schema is None else _dumped(call.schema),
            ),
            line=(ask, call.digest, self._run, call.purpose, self._process, time.time()),
            run=self._run,
            limits=self._limits,
            charge=charge,
        )  # fmt: skip
        doing = asyncio.ensure_future(self._access.do(operation))
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:  # the intent will be on record all the same, and must be, to be taken back
            await doing
            self._begun(call, operation)
            raise
        self._judges.add(judge)
        if operation.refused is not None:
            raise operation.refused
        if operation.elsewhere:
            raise BegunElsewhere
        self._begun(call, operation)
        return self._reply(operation.result)

    def _judge_digest(self, judge: Mapping[str, Json]) -> str:
        """Return the digest of a judge; the calls of a client have the same object for theirs."""
        if judge is not self._last_judge[0]:
            self._last_judge = judge, digest(dict(judge))
        return self._last_judge[1]

    def _begun(self, call: Call, operation: Intend) -> None:
        """Remember under what a call was intended."""
        if operation.admitted:
            reserved = (operation.charge.usd or 0.0) if operation.charge is not None else 0.0
            self._open[call.digest].append(_Open(operation.ask, operation.accounts, reserved))

    def _forget_if_forked(self) -> None:
        """Leave the calls of the process that this one was forked from to that."""
        if self._pid != os.getpid():
            self._pid, self._process = os.getpid(), this_process()
            self._open.clear()

    async def answered(self, call: Call, reply: Reply) -> None:
        """See :class:`leadline.evaluators.judge_client.calls.Ledger`."""
        begun = self._close(call)
        await self._access.do(
            End(
                ask=begun.ask,
                line=(
                    time.time(), reply.tries, reply.seconds, reply.input_tokens, reply.output_tokens, reply.cost_usd,
                    _plain(reply.served_model) or None, _plain(reply.fingerprint) or None, begun.ask,
                ),
                reply=(pack(reply.text), _plain(reply.finish_reason), begun.ask, call.digest),
                run=self._run,
                accounts=begun.accounts,
                reserved=begun.reserved,
                cost_usd=reply.cost_usd,
            )
        )  # fmt: skip

    async def failed(self, call: Call, message: str, *, spent: bool = False) -> None:
        """See :class:`leadline.evaluators.judge_client.calls.Ledger`."""
        begun = self._close(call)
        line = (time.time(), _plain(message), begun.ask)
        await self._access.do(End(begun.ask, line, None, self._run, begun.accounts, begun.reserved, None, spent))

    async def judged(self, digest: str, parser: str, verdict: Json, problem: str) -> None:
        """See :class:`leadline.evaluators.judge_client.calls.Ledger`."""
        await self._access.do(Read((digest, parser, json.dumps(verdict), _plain(problem))))

    async def keep_check(self, line: tuple[Any, ...]) -> None:
        """Put the outcome of a check of a judge on record.

        Args:
            line: Values of ``ledger/add_drift_check``.
        """
        await self._access.do(KeepCheck(line))

    def _close(self, call: Call) -> _Open:
        """Return under what a call was intended; two judges of one identity may intend it twice."""
        begun = self._open[call.digest]
        found = begun.pop() if begun else _Open(0)
        if not begun:
            del self._open[call.digest]
        return found

    def _reply(self, line: tuple[Any, ...] | None) -> Reply | None:
        if line is None:
            return None
        text, finish_reason, sent, received, cost, seconds, tries, run = line
        earlier = run != self._run
        return Reply(
            unpack(text), finish_reason, sent, received, cost, seconds, tries, from_ledger=True, earlier=earlier
        )


def _plain(text: str) -> str:
    return without_surrogates(text).replace("\0", "\ufffd")


def _dumped(value: Any) -> str:
    """Return JSON that every database can store; letters outside ASCII are not escaped, which takes less room."""
    text = json.dumps(value, ensure_ascii=False)
    return text if without_surrogates(text) == text else json.dumps(value)


def _judge(name: str, call: Call) -> tuple[str, str, str]:
    return name, _plain(str(call.judge.get("model", ""))), json.dumps(call.judge, sort_keys=True)


_lock = Lock()
_last = 0
_mark = secrets.randbelow(1 << 12)


def _next_ask() -> int:
    """Return a number for an ask: microseconds since 1970, and 12 bits that tell this process from others."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1000)
        return _last << 12 | _mark


def _draw_mark() -> None:
    """Tell a forked process's asks from those of the one that it comes from."""
    global _mark, _lock
    _mark, _lock = secrets.randbelow(1 << 12), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_draw_mark)


LEDGER_VARIABLE: Final = "LEADLINE_LEDGER"
SERVER_LIMITS: Final = "server-limits"
"""The folder of a store that holds how many calls judges' servers take at once."""

_POSTGRES: Final = ("postgresql://", "postgres://")


def new_name(kind: str) -> str:
    """Return a name under which the calls of a job are put on record; it sorts by time."""
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
    """Open the ledger for the calls of one run."""
    return DatabaseLedger(_access(ledger_place(store)), run, limits, store.root / SERVER_LIMITS)


def ledger_at(place: Path | str, run: str, limits: Limits | None = None) -> DatabaseLedger:
    """Open the ledger in a file or at an address, as :func:`open_ledger` does."""
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
_opening = Lock()


def _access(place: Path | str) -> Access:
    """Return the process's one access to a database."""
    with _opening:
        if place not in _accesses:
            _accesses[place] = SqliteAccess(place) if isinstance(place, Path) else PostgresAccess(place)
        return _accesses[place]
