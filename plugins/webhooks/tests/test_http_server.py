"""Connections that send half a request, or nothing: dropped in time, and never in the way of others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from leadline.plugins import http_server
from leadline.plugins.webhooks.webhook_payloads import ModelChoice
from leadline.plugins.webhooks.webhook_server import Webhook
from tests.support.processes.waiting import eventually

HALF = b"POST /mlflow HTTP/1.1\r\nHost: x\r\nX-a: "


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = http_server.server_of(Webhook("a shared secret", ModelChoice(models={}), tmp_path).app())
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        eventually(lambda: server.started, 20, "the server listens")
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def connected(port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(sent)
    return connection


def ended(connection: socket.socket) -> bytes:
    """Wait until the server closes a connection, and return what it said before."""
    said = b""
    try:
        while part := connection.recv(4096):
            said += part
    except ConnectionResetError:
        pass
    return said


def health(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/health", timeout=30, trust_env=False).status_code


@pytest.mark.parametrize("sent", [b"", b"P", HALF, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + HALF])
def test_half_a_request_is_dropped(port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEADERS_S", 0.3)
    with connected(port, sent) as connection:
        assert ended(connection).count(b"200 OK") == sent.count(b"GET")


def test_a_body_that_does_not_come_is_dropped_too(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "BODY_S", 0.3)
    with connected(port, b"POST /mlflow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12") as connection:
        assert ended(connection) == b""
    eventually(lambda: "went away" in caplog.text, 20, "it is logged")
    assert "Traceback" not in caplog.text


def test_no_number_of_half_sent_requests_keeps_a_whole_one_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS", 20)
    with ExitStack() as stack:
        held = [stack.enter_context(connected(port, HALF)) for _ in range(60)]
        assert health(port) == 200
        assert [ended(connection) for connection in held[:30]] == [b""] * 30  # the oldest make room
        assert health(port) == 200


def test_a_request_in_pieces_is_answered(port: int) -> None:
    with connected(port, b"GET /health HTTP/1.1\r\n") as connection:
        connection.sendall(b"Host: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in ended(connection)


def test_a_body_without_end_is_answered_and_cut_off(port: int) -> None:
    sent = 0
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with connected(port, b"POST /mlflow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") as connection:
        connection.sendall(piece * 2)
        assert b"413" in connection.recv(4096)
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 2**30:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < 2**24
