"""Runs pairs of queries on DuckDB and says whether they return the same; a program of its own, one line of JSON a pair.

Queries come from models, so they run in a process apart from the evaluation's: in memory, without files, network,
extensions or settings of their own, on one thread, with a limit of memory and of time. It imports nothing of Leadline.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from threading import Timer
from typing import Any, Final

import duckdb

MOST_ROWS: Final = 100_000
"""Rows of a result that are compared."""

KEPT: Final = 8
"""Databases that are kept for further pairs."""


def database(setup: list[str], tables: dict[str, list[list[Any]]], memory: str) -> Any:
    """Return a database in memory that holds the given tables and can reach nothing else.

    Args:
        setup: Statements that make the tables.
        tables: Further rows by table.
        memory: Limit of memory, as DuckDB writes it.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "threads": "1",
            "memory_limit": memory,
            "max_temp_directory_size": "0KB",
        },
    )
    for statement in setup:
        connection.execute(statement)
    for table, rows in tables.items():
        name = table.replace('"', '""')
        connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
    connection.execute("SET lock_configuration = true")
    return connection


def result(connection: Any, query: str, seconds: float) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the number of columns and the rows of a query.

    Args:
        seconds: How long it may take.

    Raises:
        TimeoutError: It took longer.
        OverflowError: It returns more than :data:`MOST_ROWS` rows.
    """
    timer = Timer(seconds, connection.interrupt)
    timer.start()
    try:
        cursor = connection.execute(query)
        rows = cursor.fetchmany(MOST_ROWS + 1)
        columns = len(cursor.description or ())
    except duckdb.InterruptException:
        raise TimeoutError("the query took too long") from None
    finally:
        timer.cancel()
    if len(rows) > MOST_ROWS:
        raise OverflowError(f"the query returns more than {MOST_ROWS:,} rows")
    return columns, [tuple(map(plain, row)) for row in rows]


def expected_result(connection: Any, asked: dict[str, Any]) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the columns of the expected query and its rows, with what they are sorted by behind them if that is known.

    Args:
        asked: A line of the input.
    """
    if asked["with_keys"]:
        with suppress(duckdb.Error):  # its keys cannot stand beside its columns: ties stay in order
            columns, rows = result(connection, asked["with_keys"], asked["seconds"])
            return columns - asked["keys"], rows
    return result(connection, asked["expected"], asked["seconds"])


def groups(rows: list[tuple[Any, ...]], columns: int, *, ordered: bool) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that may change places among each other, with the number of the first.

    Args:
        rows: The rows of the expected query; what they are sorted by stands behind their columns.
        columns: How many columns the query itself returns.
        ordered: Whether their order counts; all of them may change places otherwise.
    """
    start = 0
    for _, equal in groupby(rows, key=lambda row: (row[columns:] or row) if ordered else ()):
        group = list(equal)
        yield start, group
        start += len(group)


def plain(value: Any) -> Any:
    """Return a value so that equal ones are equal: numbers of any type to nine digits, days and times as text."""
    if isinstance(value, bool) or value is None:
        return ("bool", value)
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return ("nan",) if math.isnan(number) else float(f"{number:.9g}") + 0.0
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value) if isinstance(value, list | dict | tuple | bytes | timedelta) else str(value)


def say(answer: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def limit_memory(megabytes: int) -> None:
    """Bound the memory of this process, where the platform can: DuckDB's limit does not cover a result's values.

    Args:
        megabytes: Memory of a query.
    """
    import resource  # of Unix only

    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + (3 * megabytes + 512) * 2**20
        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    except (OSError, ValueError):  # no Linux, or a limit of its own
        return


def main() -> None:
    """Answer each line of the input with lines of the output: which query begins, and at last how they compare."""
    import resource  # of Unix only

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    kept: OrderedDict[str, Any] = OrderedDict()
    for line in sys.stdin:
        asked = json.loads(line)
        limit_memory(int(asked["memory"].removesuffix("MB")))
        key = json.dumps([asked["setup"], asked["tables"], asked["memory"]])
        answer: dict[str, Any] = {}
        side = "setup"
        try:
            if key not in kept:
                kept[key] = database(asked["setup"], asked["tables"], asked["memory"])
                while len(kept) > KEPT:
                    kept.popitem(last=False)[1].close()
            kept.move_to_end(key)
            say({"begins": "expected"})
            side = "expected"
            columns, wanted = expected_result(kept[key], asked)
            say({"begins": "actual"})
            side = "actual"
            others, given = result(kept[key], asked["actual"], asked["seconds"])
            same = len(wanted) == len(given) and all(
                Counter(row[:columns] for row in group) == Counter(given[start : start + len(group)])
                for start, group in groups(wanted, columns, ordered=asked["ordered"])
            )
            answer = {
                "equal": same and columns == others,
                "rows": [len(wanted), len(given)],
                "columns": [columns, others],
            }
        except (duckdb.Error, TimeoutError, OverflowError, ValueError, MemoryError) as error:
            kept.pop(key, None)
            kind = "timeout" if isinstance(error, TimeoutError) else "error"
            if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
                kind = "memory"
            answer = {"fault": kind, "side": side, "message": str(error).partition("\n")[0][:300]}
        say(answer)


if __name__ == "__main__":
    main()
