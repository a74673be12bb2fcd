"""A collector of OpenTelemetry over real HTTP, which keeps what it is sent and refuses what it is told to."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Collector:
    """What was received.

    Attributes:
        url: The endpoint.
        received: Path and body of each request, in order.
        refused: Paths that are answered with 404.
    """

    url: str = ""
    received: list[tuple[str, bytes]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def bodies(self, path: str = "") -> list[bytes]:
        """Return the bodies that came to a path, or to all."""
        return [body for where, body in self.received if path in ("", where)]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(404 if self.path in collector.refused else 200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
