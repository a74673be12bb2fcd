"""Limits of time and memory for a query, in a process that has nothing else to do."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEGABYTE: Final = 2**20


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Bound the memory that this process may take, where the platform can.

    DuckDB's own limit covers neither the values of a result nor what Python makes of them.

    Args:
        megabytes: How much more than now.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError, ValueError):  # no Linux, or a lower limit already
            import resource

            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            had, most = resource.getrlimit(resource.RLIMIT_AS)
            wanted = pages * resource.getpagesize() + megabytes * MEGABYTE
            resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
            stack.callback(resource.setrlimit, resource.RLIMIT_AS, (had, most))
        yield


def megabytes_here() -> int:
    """Return the memory of this machine in megabytes; 8 GB where it does not say."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // MEGABYTE
    except (AttributeError, ValueError, OSError):
        return 8_000


@contextmanager
def limited(connection: DuckDBPyConnection, *, seconds: float, memory: str) -> Iterator[None]:
    """End a query when its time is over, and say where it was that or its memory.

    Args:
        connection: What runs it.
        seconds: Its time.
        memory: Its memory, as a person reads it.

    Raises:
        UsageError: It took longer, or more.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except MemoryError:
        raise too_large(memory) from None
    except (UsageError, KeyboardInterrupt) as error:  # what an interrupted query ends with
        if over.is_set():
            raise too_long(seconds) from error
        if "Out of Memory" in str(error) or "bad allocation" in str(error) or "allocat" in str(error):
            raise too_large(memory) from error
        raise
    finally:
        timer.cancel()


def too_long(seconds: float) -> UsageError:
    """Return the error of a query that took too long."""
    return UsageError(
        f"The query took more than {seconds:g} s.",
        hint="Ask for less: fewer runs, a WHERE, a LIMIT.",
        code=ErrorCode.QUERY_FAILED,
    )


def too_large(memory: str) -> UsageError:
    """Return the error of a query that took too much memory."""
    return UsageError(
        f"The query needs more than {memory} of memory.",
        hint="Ask for less: fewer runs, fewer columns, a WHERE, a LIMIT.",
        code=ErrorCode.QUERY_FAILED,
    )
