"""Locks that a process inherits, on files: a child that gets the descriptor holds the lock on.

:mod:`filelock`, which Leadline uses elsewhere, closes its files for children and knows no shared locks. Where the
system has none of these locks (Windows), no server is kept.
"""

from __future__ import annotations

from typing import IO, Any, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

AVAILABLE: Final = fcntl is not None
"""Whether this system has such locks."""


def taken(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock a file if nobody holds a lock against that; the lock ends when the last descriptor of it is closed.

    Args:
        file: The open file.
        shared: Share it with other shared locks.

    Raises:
        LeadlineError: This system has no such locks.
    """
    if not AVAILABLE:
        raise LeadlineError(
            "This system has no file locks that a server could inherit.",
            hint="Run without a kept server: --server none",
            code=ErrorCode.SERVER_START,
        )
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
