"""A collector of OpenTelemetry over real HTTP, which keeps what it is sent and refuses what it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.processes.http_servers import QuietHandler, serving_http


@dataclass
class Collector:
    """What was received.

    Attributes:
        url: The endpoint.
        received: Path and body of each request, in order.
        headers: Their headers.
        answer: Returns the status that a request to a path is answered with.
    """

    url: str = ""
    received: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: Callable[[str], int] = lambda path: 200

    def bodies(self, path: str = "") -> list[bytes]:
        """Return the bodies that came to a path, or to all."""
        return [body for where, body in self.received if path in ("", where)]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    collector = Collector()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            collector.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            collector.headers.append(dict(self.headers))
            self.send_response(collector.answer(self.path))
            self.end_headers()

    with serving_http(Handler) as collector.url:
        yield collector
