"""HTTP servers of tests on loopback, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """Handles requests, and does not tell each on standard error."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving_http(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Serve until the block ends; yields the address without a path."""
    with running(ThreadingHTTPServer(("127.0.0.1", port), handler)) as taken:
        yield f"http://127.0.0.1:{taken}"


@contextmanager
def running(server: TCPServer) -> Iterator[int]:
    """Let a server serve until the block ends; yields its port."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
