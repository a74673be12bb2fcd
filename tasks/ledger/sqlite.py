"""The ledger in an SQLite file: the default, for any number of processes on one host."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import defaultdict
from pathlib import Path
from threading import Lock
from typing import Final

from evaluators.judge.calls import Call, Reply
from evaluators.text.sentences import without_surrogates
from evaluators.types import Json
from tasks.db import sql
from tasks.ledger.processes import this_process
from tasks.ledger.writer import Writer
from tasks.store import digest

_FIND: Final = """
    SELECT calls.text, calls.finish_reason, asks.input_tokens, asks.output_tokens, asks.cost_usd, asks.seconds,
           asks.tries, asks.run
    FROM calls JOIN asks ON asks.ask = calls.answered_by
    WHERE calls.digest = ?
"""
_JUDGE: Final = "INSERT INTO judges VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_CALL: Final = """
    INSERT INTO calls (digest, judge, trial, attempt, messages, schema) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
_INTEND: Final = """
    INSERT INTO asks (digest, run, purpose, process, state, intended_at) VALUES (?, ?, ?, ?, 'intended', ?)
    RETURNING ask
"""
_ANSWER: Final = """
    UPDATE asks SET state = 'answered', ended_at = ?, tries = ?, seconds = ?, input_tokens = ?, output_tokens = ?,
                    cost_usd = ?
    WHERE ask = ?
"""
_REPLY: Final = """
    UPDATE calls SET text = ?, finish_reason = ?, answered_by = ? WHERE digest = ? AND answered_by IS NULL
"""
_FAIL: Final = "UPDATE asks SET state = 'failed', ended_at = ?, error = ? WHERE ask = ?"
_JUDGED: Final = """
    INSERT INTO verdicts VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET verdict = excluded.verdict, problem = excluded.problem
"""


class SqliteLedger:
    """Implements :class:`evaluators.judge.calls.Ledger` for the calls of one run in this process.

    Args:
        path: The database, shared by all runs of a store.
        run: Id of the run.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._run = run
        self._writer = writer(path)
        self._process = this_process()
        self._open: defaultdict[str, list[int]] = defaultdict(list)
        self._judges: set[str] = set()

    async def find(self, digest: str) -> Reply | None:
        """See :class:`evaluators.judge.calls.Ledger`."""
        line = self._writer.read(lambda connection: connection.execute(_FIND, [digest]).fetchone())
        if line is None:
            return None
        text, finish_reason, sent, said, cost, seconds, tries, run = line
        return Reply(text, finish_reason, sent, said, cost, seconds, tries, from_ledger=True, earlier=run != self._run)

    async def intend(self, call: Call) -> None:
        """See :class:`evaluators.judge.calls.Ledger`."""
        identity = json.dumps(call.judge, sort_keys=True)
        judge = digest(dict(call.judge))
        messages = json.dumps(call.messages, ensure_ascii=False)
        schema = None if call.schema is None else json.dumps(call.schema)

        def write(connection: sqlite3.Connection) -> int:
            if judge not in self._judges:
                connection.execute(_JUDGE, [judge, str(call.judge.get("model", "")), identity])
            connection.execute(_CALL, [call.digest, judge, call.trial, call.attempt, messages, schema])
            (ask,) = connection.execute(
                _INTEND, [call.digest, self._run, call.purpose, self._process, time.time()]
            ).fetchone()
            return int(ask)

        self._open[call.digest].append(await self._writer.write(write, at_once=True))
        self._judges.add(judge)

    async def answered(self, call: Call, reply: Reply) -> None:
        """See :class:`evaluators.judge.calls.Ledger`."""
        ask = self._close(call)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                _ANSWER,
                [time.time(), reply.tries, reply.seconds, reply.input_tokens, reply.output_tokens, reply.cost_usd, ask],
            )
            connection.execute(_REPLY, [reply.text, reply.finish_reason, ask, call.digest])

        await self._writer.write(write)

    async def failed(self, call: Call, message: str) -> None:
        """See :class:`evaluators.judge.calls.Ledger`."""
        ask = self._close(call)
        said = without_surrogates(message)
        await self._writer.write(lambda connection: connection.execute(_FAIL, [time.time(), said, ask]).rowcount)

    async def judged(self, digest: str, parser: str, verdict: Json, problem: str) -> None:
        """See :class:`evaluators.judge.calls.Ledger`."""
        said, why = json.dumps(verdict), without_surrogates(problem)
        await self._writer.write(lambda connection: connection.execute(_JUDGED, [digest, parser, said, why]).rowcount)

    def _close(self, call: Call) -> int | None:
        """Return the number under which a call was intended; two judges of one identity may intend it twice."""
        asks = self._open[call.digest]
        ask = asks.pop() if asks else None
        if not asks:
            del self._open[call.digest]
        return ask


_writers: dict[Path, Writer] = {}
_lock = Lock()


def writer(path: Path) -> Writer:
    """Return the process's one writer of a database."""
    with _lock:
        if path not in _writers:
            _writers[path] = Writer(path, sql("ledger"))
        return _writers[path]
