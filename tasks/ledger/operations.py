"""Operations on the ledger and their statements, the same for every database.

Operations that wait at the same time are done in one transaction by :func:`perform`, a generator of statements whose
driver executes them and sends back the rows. So SQLite and PostgreSQL share the order of the statements and the rules
about budgets.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from leadline.evaluators.judge_client.budget import Limits, admit, admit_team, month_of
from leadline.evaluators.judge_client.calls import BudgetSpent, Charge
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.db import sql
from leadline.tasks.ground.processes import is_gone

T = TypeVar("T")

WAIT_FOR_OTHERS_S: Final = 360.0
"""Seconds for which a call is left to another process, which may have given it up by then."""


_ESCAPED: Final = "\x01json:"
"""Begins a text that a database cannot store as it is, and that is kept as JSON."""


class LedgerQuery(NamedTuple):
    """A statement whose rows are wanted; ``?`` stands for a value."""

    sql: str
    values: Sequence[Any]


class Change(NamedTuple):
    """A statement to be run with each line of values."""

    sql: str
    lines: Sequence[Sequence[Any]]


Statements: TypeAlias = Generator[LedgerQuery | Change, list[tuple[Any, ...]], None]


class Account(NamedTuple):
    """A line of a budget that calls are charged to: a run's, or that of a team in a month.

    Attributes:
        kind: ``run`` or ``team``.
        key: The run's id, or the team and the month.
    """

    kind: str
    key: tuple[str, ...]

    def statement(self, what: str) -> str:
        """Return the statement that adds the line (``add``), changes it (``spend``) or reads it (``spent``)."""
        return sql(f"ledger/{_BOOKS[self.kind][what]}")


_BOOKS: Final = {
    "run": {"add": "add_budget", "spend": "spend", "spent": "spent"},
    "team": {"add": "add_team_budget", "spend": "spend_of_team", "spent": "spent_by_team"},
}


@dataclass(slots=True)
class Find:
    """Look for a reply; ``result`` has the columns of ``ledger/find`` without the digest, or is ``None``."""

    digest: str
    result: tuple[Any, ...] | None = None


@dataclass(slots=True)
class Intend:
    """Begin a call, unless its reply came meanwhile or the budget does not allow it.

    Attributes:
        ask: Number of the attempt to get a reply; grows with time.
        judge: Columns of the judge, or ``None`` where it is known to be there.
        charge: What the call may cost; ``None`` for one outside of the budget.
        result: The reply that came meanwhile, as in :class:`Find`.
        refused: Why the budget does not allow it.
        elsewhere: True if a living process began the call less than :data:`WAIT_FOR_OTHERS_S` ago.
    """

    ask: int
    judge: tuple[Any, ...] | None
    call: tuple[Any, ...]
    line: tuple[Any, ...]
    run: str
    limits: Limits
    charge: Charge | None
    result: tuple[Any, ...] | None = None
    refused: BudgetSpent | None = None
    elsewhere: bool = False

    @property
    def digest(self) -> str:
        """The question."""
        return str(self.call[0])

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The budgets that it counts against."""
        if self.charge is None:
            return ()
        limited = self.limits.calls is not None or self.limits.cost_usd is not None
        team = self.limits.team
        of_run = (Account("run", (self.run,)),) if limited else ()
        return of_run + ((Account("team", (team.team, month_of(self.line[-1]))),) if team else ())

    @property
    def admitted(self) -> bool:
        """True if the call is to be made."""
        return self.result is None and self.refused is None and not self.elsewhere


@dataclass(slots=True)
class End:
    """End a call.

    Attributes:
        line: Values of ``ledger/answer_ask`` or ``ledger/fail_ask``.
        reply: Values of ``ledger/add_reply``, or ``None`` if there was no reply.
        reserved: What was set aside for it in US dollars.
        cost_usd: What it cost, ``None`` where that is not known.
        spent: Whether a call without a reply may have been paid for, so that nothing is given back.
    """

    ask: int
    line: tuple[Any, ...]
    reply: tuple[Any, ...] | None
    run: str
    accounts: tuple[Account, ...]
    reserved: float
    cost_usd: float | None
    spent: bool = False
    result: None = None

    @property
    def change(self) -> tuple[int, float]:
        """The change of the budget by the end: calls and US dollars."""
        if self.reply is None and not self.spent:
            return -1, -self.reserved
        return 0, 0.0 if self.cost_usd is None else self.cost_usd - self.reserved


@dataclass(slots=True)
class Read:
    """Store a parser's verdict on a reply."""

    line: tuple[str, str, str, str]
    result: None = None


@dataclass(slots=True)
class Beat:
    """Record that a process is alive."""

    line: tuple[str, float]
    result: None = None


@dataclass(slots=True)
class KeepCheck:
    """Store the outcome of a check of a judge, unless that of its occasion is there.

    Attributes:
        line: Values of ``ledger/add_drift_check``.
    """

    line: tuple[Any, ...]
    result: None = None


Operation: TypeAlias = Find | Intend | End | Read | Beat | KeepCheck


class Work(NamedTuple):
    """An operation that waits to be done, and what is told when it is durable."""

    operation: Operation
    future: asyncio.Future[None]


LATER_COLUMNS: Final = ("served_model", "fingerprint")
"""Columns of ``asks`` that ledgers of earlier versions lack."""


def described(operation: Operation) -> str:
    """Return a few words for an operation, for error messages."""
    match operation:
        case Find() | Intend():
            return f"the call {operation.digest}"
        case End():
            return f"the end of ask {operation.ask} in the run {operation.run}"
        case Read():
            return f"the verdict on the call {operation.line[0]}"
        case KeepCheck():
            return f"the check {operation.line[0]} of the judge {operation.line[1]}"
        case Beat():
            return f"the process {operation.line[0]}"


def pack(text: str) -> str:
    """Return a text in a form that every database can store: without NULs and lone surrogates, which some do not."""
    if "\0" in text or text.startswith(_ESCAPED) or without_surrogates(text) != text:
        return _ESCAPED + json.dumps(text)
    return text


def unpack(text: str) -> str:
    """Return the text that :func:`pack` was given."""
    return str(json.loads(text.removeprefix(_ESCAPED))) if text.startswith(_ESCAPED) else text


def perform(operations: Sequence[Operation], *, again: bool = False) -> Statements:
    """Yield the statements of operations that are done in one transaction; results go into the operations.

    Args:
        again: Retry after a transaction whose commit status is unknown.
    """
    ends, intents = _kind(operations, End), _kind(operations, Intend)
    for intent in intents:
        intent.refused, intent.elsewhere = None, False
    done = (yield from _done(ends, intents)) if again else frozenset()
    yield from _finds(_kind(operations, Find))
    if ends:
        yield from _change("answer_ask", [end.line for end in ends if end.reply is not None], last=True)
        yield from _change("fail_ask", [end.line for end in ends if end.reply is None], last=True)
        yield from _change("add_reply", [end.reply for end in ends if end.reply is not None], last=True)
    yield from _change("add_verdict", [read.line for read in _kind(operations, Read)])
    yield from _change("add_drift_check", [check.line for check in _kind(operations, KeepCheck)])
    yield from _change("beat", [beat.line for beat in _kind(operations, Beat)])
    if intents:
        yield from _change("add_judge", list({op.judge for op in intents if op.judge is not None}))
        yield from _change("add_call", [op.call for op in intents])
        yield from _finds(intents)
        yield from _others([op for op in intents if op.result is None and op.charge is not None and op.ask not in done])
    yield from _budgets([end for end in ends if end.ask not in done], [op for op in intents if op.ask not in done])
    yield from _change("add_ask", [op.line for op in intents if op.admitted])


def _done(
    ends: Sequence[End], intents: Sequence[Intend]
) -> Generator[LedgerQuery | Change, list[tuple[Any, ...]], set[int]]:
    """Return the asks that were begun or ended by the transaction before."""
    found: set[int] = set()
    for asks, condition in (([op.ask for op in intents], ""), ([op.ask for op in ends], " AND state <> 'intended'")):
        if asks:
            rows = yield LedgerQuery(f"SELECT ask FROM asks WHERE ask IN {_places(asks)}{condition}", _padded(asks))
            found |= {int(ask) for (ask,) in rows}
    return found


def _finds(wanted: Sequence[Find] | Sequence[Intend]) -> Statements:
    digests = sorted({op.digest for op in wanted})
    if digests:
        rows = yield LedgerQuery(sql("ledger/find").format(digests=_places(digests)), _padded(digests))
        found = {str(row[0]): tuple(row[1:]) for row in rows}
        for op in wanted:
            op.result = found.get(op.digest)


def _others(intents: Sequence[Intend]) -> Statements:
    """Look which calls other processes make just now."""
    if intents:
        digests = sorted({op.digest for op in intents})
        *_, process, now = intents[0].line
        statement = sql("ledger/others").format(digests=_places(digests))
        rows = yield LedgerQuery(statement, [process, now - WAIT_FOR_OTHERS_S, *_padded(digests)])
        begun = {str(digest) for digest, other, at, seen_at in rows if not is_gone(other, at, seen_at=seen_at)}
        for op in intents:
            op.elsewhere = op.digest in begun


@dataclass(slots=True)
class _Balance:
    """The sum spent from an account so far, and the sum that the calls that begin now take."""

    calls: int
    usd: float
    more_calls: int = 0
    more_usd: float = 0.0


def _budgets(ends: Sequence[End], intents: Sequence[Intend]) -> Statements:
    """Settle what ended and admit what begins; the first change of a line locks it for the transaction.

    Every transaction locks in the same order, runs before teams, so that none waits for another in a circle.
    """
    settled: defaultdict[Account, list[tuple[int, float]]] = defaultdict(list)
    for end in ends:
        for account in end.accounts:
            settled[account].append(end.change)
    begun = [op for op in intents if op.accounts and op.admitted]
    wanted = {account for op in begun for account in op.accounts}
    balances: dict[Account, _Balance] = {}
    for account in sorted({*settled, *wanted}):
        changes = settled[account]
        if account in wanted:
            yield Change(account.statement("add"), [account.key])
        total = sum(calls for calls, _ in changes), sum(usd for _, usd in changes)
        yield Change(account.statement("spend"), [(*total, *account.key)])
        if account in wanted:
            ((calls, usd),) = yield LedgerQuery(account.statement("spent"), account.key)
            balances[account] = _Balance(calls, usd)
    for op in begun:
        _admit(op, [(account, balances[account]) for account in op.accounts])
    for account, balance in balances.items():
        yield Change(account.statement("spend"), [(balance.more_calls, balance.more_usd, *account.key)])


def _admit(op: Intend, balances: Sequence[tuple[Account, _Balance]]) -> None:
    """Refuse a call that exceeds a limit; another is taken from all its accounts."""
    charge = op.charge or Charge(0.0)
    try:
        for account, balance in balances:
            calls, usd = balance.calls + balance.more_calls, balance.usd + balance.more_usd
            if account.kind == "run":
                admit(op.limits, calls, usd, charge)
            elif op.limits.team is not None:
                admit_team(op.limits.team, account.key[1], calls, usd, charge)
    except BudgetSpent as refusal:
        op.refused = refusal
        return
    for _, balance in balances:
        balance.more_calls += 1
        balance.more_usd += charge.usd or 0.0


def _change(statement: str, lines: Sequence[Sequence[Any]], *, last: bool = False) -> Statements:
    """Yield a change unless there is nothing to do; in the order of what it changes, so that writers cross less."""
    if lines:
        yield Change(sql(f"ledger/{statement}"), sorted(lines, key=lambda line: str(line[-1] if last else line[0])))


def _kind(operations: Iterable[Operation], kind: type[T]) -> list[T]:
    return [operation for operation in operations if isinstance(operation, kind)]


def _padded(values: Sequence[T]) -> list[T]:
    """Repeat the last value up to a power of two, so that there are few different statements to prepare."""
    return [*values, *[values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))]


def _places(values: Sequence[Any]) -> str:
    return f"({', '.join('?' * len(_padded(values)))})"
