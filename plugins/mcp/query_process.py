"""One SQL query in a process of its own: however much it takes, the server goes on answering others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, dump
from leadline.plugins.mcp.bounded_reply import bounded, page
from leadline.tasks.runs.query import archive, limited, memory_limit, too_large, too_long
from leadline.tasks.store.store import Store

MEMORY: Final = "2GB"
"""Memory that DuckDB may take for one query."""

MOST_MEGABYTES: Final = 3_000
"""Memory that the process may take in all, beyond what it starts with."""

STARTUP: Final = 10.0
"""Seconds beyond a query's own after which its process is killed."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query with the runs that it sees, the page that is wanted, and its time.

    Attributes:
        store: Path or URL of the store.
        runs: Ids of the runs that it sees.
        statement: One SELECT.
        limit: Rows of the result at most.
        offset: Rows before them.
        seconds: How long it may take.
    """

    store: str
    runs: Sequence[str]
    statement: str
    limit: int
    offset: int
    seconds: float


def ask(query: Query) -> dict[str, Any]:
    """Return a page of a query's result from a process that is ended with it.

    Raises:
        UsageError: It is no query, fails, or takes too long or too much memory.
    """
    try:
        ended = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__],
            input=dump(asdict(query)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=query.seconds + STARTUP,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise too_long(query.seconds) from None
    try:
        said: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:  # a library aborts where an allocation fails
        raise too_large(MEMORY) from None
    if "error" in said:
        raise UsageError(
            said["error"], hint=said["hint"], code=next(code for code in ErrorCode if code.value == said["code"])
        )
    return said


def _answer(query: Query) -> dict[str, Any]:
    store = Store.open(query.store)
    with (
        archive(
            store, [store.run(name) for name in query.runs], statement=query.statement, memory_limit=MEMORY
        ) as opened,
        limited(opened.connection, seconds=query.seconds, memory=MEMORY),
    ):
        columns, lines = opened.page(query.statement, query.limit + 1, query.offset)
    more = len(lines) > query.limit
    total = None if more else query.offset + len(lines)
    shown = page(lines[: query.limit], offset=query.offset, total=total, more=more)
    return {"skipped": bounded(opened.skipped, 300), "columns": columns, **shown}


def main() -> None:
    """Answer the query on standard input with one line of JSON."""
    asked = Query(**json.loads(sys.stdin.buffer.read()))
    os.nice(10)  # the server and its other clients go before
    try:
        with memory_limit(MOST_MEGABYTES):
            said = _answer(asked)
    except (LeadlineError, MemoryError) as error:
        fault = error if isinstance(error, LeadlineError) else too_large(MEMORY)
        said = {"error": fault.message, "hint": fault.hint, "code": fault.code.value}
    sys.stdout.buffer.write(dump(said))


if __name__ == "__main__":
    main()
