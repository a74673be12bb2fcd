"""A Prefect server that goes away and comes back costs a flow time, and nothing else."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.prefect.server import answers
from leadline.flows.prefect.server_outage import not_waiting, outlast_outages, waiting
from leadline.tasks.ground import outages
from tests.support.judges.judge_endpoint import serving
from tests.support.processes.cut_line import CutLine
from tests.support.processes.http_servers import QuietHandler, running, serving_http
from tests.support.processes.ports import free_port
from tests.support.processes.prefect_api import start_server
from tests.support.processes.rag_app import TARGET, RagApp
from tests.tasks.compare.two_runs import completed

outlast_outages()


class Recovering(QuietHandler):
    """Says what its server's list of statuses says, and 200 when that is empty."""

    statuses: list[int]

    def do_GET(self) -> None:
        status = self.statuses.pop(0) if self.statuses else 200
        self.send_response(status)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"true")


@contextmanager
def api(port: int, *statuses: int) -> Iterator[str]:
    with serving_http(type("Handler", (Recovering,), {"statuses": list(statuses)}), port) as address:
        yield f"{address}/"


@pytest.fixture(autouse=True)
def _one_owner_of_retries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the client's own retries out, and wait in small steps."""
    monkeypatch.setattr(outages, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.05)
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield


def ask(url: str) -> int:
    with PrefectHttpxSyncClient(trust_env=False) as client:
        return client.get(url).status_code


def test_a_request_waits_until_the_server_answers() -> None:
    port = free_port()
    answered: list[int] = []
    asking = threading.Thread(target=lambda: answered.append(ask(f"http://127.0.0.1:{port}/")))
    asking.start()
    asking.join(0.3)
    assert asking.is_alive()
    with api(port):
        asking.join(30)
    assert answered == [200]


def test_a_request_of_an_event_loop_waits_too() -> None:
    async def main(url: str) -> int:
        async with PrefectHttpxAsyncClient(trust_env=False) as client:
            return (await client.get(url)).status_code

    with api(free_port(), 503, 500, 502) as url:
        assert asyncio.run(main(url)) == 200


def test_a_server_without_its_database_is_waited_for_and_one_that_refuses_is_not() -> None:
    with api(free_port(), 500, 503, 504) as url:
        assert ask(url) == 200
    with api(free_port(), 404) as url, pytest.raises(httpx.HTTPStatusError):
        ask(url)


def test_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SERVER_WAIT", "0.2")
    began = time.monotonic()
    with pytest.raises(httpx.ConnectError):
        ask(f"http://127.0.0.1:{free_port()}/")
    assert time.monotonic() - began >= 0.2


def test_who_has_something_better_to_do_does_not_wait() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    with not_waiting(), pytest.raises(httpx.ConnectError):
        ask(url)
    with waiting(0), pytest.raises(httpx.ConnectError):
        ask(url)


def test_a_server_that_is_only_busy_is_waited_for_also_where_one_that_is_gone_is_not() -> None:
    with waiting(0), api(free_port(), 503) as url:
        assert ask(url) == 200


def test_who_stops_a_run_does_not_wait_for_its_server() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(httpx.ConnectError):
            ask(f"http://127.0.0.1:{free_port()}/")


def certificate(folder: Path) -> Path:
    """Write a key with a certificate for localhost that nobody else has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, day = ec.generate_private_key(ec.SECP256R1()), datetime.timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    kind = serialization.Encoding.PEM
    text = key.private_bytes(kind, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(text + made.sign(key, hashes.SHA256()).public_bytes(kind))
    return folder / "server.pem"


@pytest.fixture
def untrusted(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose certificate this machine does not trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    handler = type("Handler", (Recovering,), {"statuses": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server) as port:
        yield f"https://localhost:{port}/"


def test_a_certificate_that_is_not_trusted_is_no_outage(untrusted: str, tmp_path: Path) -> None:
    assert answers(untrusted)
    with pytest.raises(UsageError, match="certificate of Prefect's server is not trusted") as refused:
        ask(untrusted)
    assert refused.value.code is ErrorCode.SERVER_CERTIFICATE

    async def main() -> None:
        async with PrefectHttpxAsyncClient(trust_env=False) as client:
            await client.get(untrusted)

    with pytest.raises(UsageError, match="PREFECT_API_SSL_CERT_FILE"):
        asyncio.run(main())
    trusting = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    with PrefectHttpxSyncClient(trust_env=False, verify=trusting) as client:
        assert client.get(untrusted).status_code == 200
        elsewhere = untrusted.replace("localhost", "127.0.0.1")
        with pytest.raises(UsageError, match="IP address mismatch"):
            client.get(elsewhere)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_another_wait_is_a_number_of_seconds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SERVER_WAIT", text)
    with pytest.raises(UsageError, match="LEADLINE_SERVER_WAIT"):
        outages.server_wait_s()


class RestartedServer:
    """A Prefect server that is started anew, on the same port and database, whenever it was killed.

    Attributes:
        port: Its port.
        api: Its API.
        pid_file: Has its process while it answers.
        killed: How often it was killed.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        self.pid_file = folder / "server.pid"
        self.killed = 0
        self.home = folder / "prefect"
        self.environment = os.environ | {"PREFECT_HOME": str(self.home)}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RestartedServer:
        self._thread.start()
        while not self.pid_file.exists():
            assert self._thread.is_alive()
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._process:
            self._process.kill()
        self._thread.join()

    def _keep(self) -> None:
        while not self._over.is_set():
            self._process = start_server(self.home, self.port)
            while not answers(self.api, 1) and self._process.poll() is None:
                time.sleep(0.05)
            self.pid_file.write_text(str(self._process.pid))
            self._process.wait()
            self.pid_file.unlink()
            self.killed += 1
            self._over.wait(0.3)


def flow_runs(folder: Path) -> dict[str, int]:
    """Return how many flow runs of the history are in which state."""
    with sqlite3.connect(folder / "prefect" / "prefect.db") as database:
        return dict(database.execute("SELECT state_type, count(*) FROM flow_run GROUP BY 1").fetchall())


def write_answers(path: Path) -> None:
    lines = [
        {"case": f"c{n}", "model": "m", "question": f"Where does the vessel number {n} berth today?",
         "expected_answer": f"At the quay {n}.", "actual_answer": f"At the old quay {n}."}
        for n in range(40)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_every_flow_outlives_a_server_that_is_gone_for_a_while_in_each_phase(tmp_path: Path) -> None:
    write_answers(tmp_path / "answers.jsonl")
    runs = [completed(tmp_path, {"m": [value] * 30}).id for value in (0.8, 0.4)]
    app = RagApp(reply=lambda question: "a berth")
    with serving(app), RestartedServer(tmp_path) as server, CutLine(server.port, tmp_path) as line:
        target = {**TARGET, "url": app.url.removesuffix("/v1") + "/answer", "body": {"query": "{{ question }}"}}
        (tmp_path / "targets.yaml").write_text(json.dumps({"model": [target]}))
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.processes.outage_flows", str(tmp_path), *runs],
            env=server.environment | {
                "PREFECT_API_URL": f"http://127.0.0.1:{line.port}/api", "HARBOUR_TOKEN": "tok-1",
                "LEADLINE_STORE": str(tmp_path / "store"),
                "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL", "LEADLINE_SERVER_WAIT": "120",
            },
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (line.cuts, server.killed) == (8, 1)
        deadline = time.monotonic() + 30
        while "RUNNING" in flow_runs(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        states = flow_runs(tmp_path)
    found = [json.loads(text) for text in done.stdout.splitlines()]
    flows = ["evaluate", "compare", "perturb", "collect", "generate", "check-version"]
    assert [each["flow"] for each in found] == flows
    assert [each["cuts"] for each in found] == [3, 1, 1, 1, 1, 1]
    assert found[0]["result"] == 80, "every score is there"
    assert set(states) == {"COMPLETED"}, "the history says how each flow ended"


@pytest.mark.e2e
def test_an_interrupted_run_ends_soon_where_its_server_is_gone(tmp_path: Path) -> None:
    write_answers(tmp_path / "answers.jsonl")
    script = "from tests.support.processes.outage_flows import hang; import sys; hang(sys.argv[1])"
    with RestartedServer(tmp_path) as server:
        environment = server.environment | {"PREFECT_API_URL": server.api, "LEADLINE_STORE": str(tmp_path / "store")}
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            while not (tmp_path / "hangs").exists():
                assert process.poll() is None
                time.sleep(0.05)
            server.__exit__()
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 143, said
        assert time.monotonic() - began < 60
