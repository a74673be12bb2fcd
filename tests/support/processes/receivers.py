"""Receivers of messages on loopback: HTTP servers and an SMTP server that keep what they get."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.processes.http_servers import QuietHandler, running


@dataclass
class Received:
    """What a receiver got.

    Attributes:
        port: Its port.
        messages: JSON objects, mails as text, or what a site is asked for, with which key.
        status: What HTTP answers.
        content: What a site says.
    """

    port: int = 0
    messages: list[Any] = field(default_factory=list)
    status: int = 200
    content: bytes = b""


@contextmanager
def http_site() -> Iterator[Received]:
    """Answer every GET alike."""
    got = Received()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            got.messages.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(got.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(got.content)))
            self.end_headers()
            self.wfile.write(got.content)

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as got.port:
        yield got


@contextmanager
def http_receiver() -> Iterator[Received]:
    """Take JSON by POST."""
    got = Received()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if got.status == 200:
                got.messages.append(json.loads(body))
            self.send_response(got.status)
            self.end_headers()

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as got.port:
        yield got


@contextmanager
def smtp_receiver() -> Iterator[Received]:
    """Take mails, as far as smtplib speaks SMTP."""
    got = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 receiver\r\n")
            while line := self.rfile.readline():
                command = line[:4].upper()
                if command == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(part.removeprefix(b"."))
                    got.messages.append(b"".join(lines).decode())
                self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 fine\r\n")
                if command == b"QUIT":
                    return

    with running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as got.port:
        yield got
