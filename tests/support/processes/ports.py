"""Ports for servers that have to be told theirs before they start."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress
from typing import Final

FIRST: Final = 20_000
EACH: Final = 1_500
"""Ports of each worker of pytest-xdist: up to eight fit below 32,768, from where the system takes those of clients."""

_next: Final = itertools.count()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing uses, and that no other test of this session is given."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for number in itertools.islice(_next, EACH):
        port = FIRST + worker % 8 * EACH + number % EACH
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("Something uses all ports that are meant for tests.")
