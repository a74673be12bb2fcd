"""Time for which Leadline waits for a server that went away: Prefect's, and the ledger's PostgreSQL."""

from __future__ import annotations

import os
from typing import Final

from leadline.evaluators.ground import ErrorCode, UsageError

WAIT_VARIABLE: Final = "LEADLINE_SERVER_WAIT"

WAIT_S: Final = 900.0
"""Seconds that suffice to start a service anew on another machine."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 2.0


def server_wait_s() -> float:
    """Return for how many seconds a server that went away is waited for: ``$LEADLINE_SERVER_WAIT``, or 900.

    Raises:
        UsageError: It is no number of seconds.
    """
    text = os.environ.get(WAIT_VARIABLE, "")
    try:
        seconds = float(text or WAIT_S)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(
            f"{WAIT_VARIABLE}: {text[:40]!r} is no number of seconds.",
            hint="0 is for not waiting at all.",
            code=ErrorCode.CONFIG_OPTION,
        )
    return seconds


def next_pause_s(before: float) -> float:
    """Return the pause before the next try: twice the one before (0 at first), up to :data:`LONGEST_PAUSE_S`."""
    return min(before * 2 or FIRST_PAUSE_S, LONGEST_PAUSE_S)
