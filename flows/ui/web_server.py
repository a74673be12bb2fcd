"""Serving the pages until somebody ends it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PORT: Final = 8585
BACKLOG: Final = 128


def listener(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: Address of the interface.
        port: The port; without one the usual, or a free one where that is taken.

    Raises:
        LeadlineError: The port cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (PORT, 0) if port is None else (port,):
        try:
            return socket.create_server((host, number), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            failure = error
    raise LeadlineError(
        f"Port {port or PORT} of {host} cannot be used: {getattr(failure, 'strerror', None) or failure}.",
        hint="Choose another: --port N",
        code=ErrorCode.SERVER_PORT,
    ) from failure


def serve_pages(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        app: The application.
        listening: The socket.
    """
    import uvicorn

    from leadline.flows.shared.patient_protocol import PatientProtocol

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, http=PatientProtocol, ws="none", lifespan="off",
        timeout_keep_alive=5, timeout_graceful_shutdown=5, server_header=False,
    )  # fmt: skip
    uvicorn.Server(config).run([listening])
