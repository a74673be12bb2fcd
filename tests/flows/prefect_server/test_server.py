"""The Prefect servers: which one a run uses, that its history is complete, and that one is kept and ended cleanly."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.flows.prefect_server import background
from leadline.flows.prefect_server.background import BackgroundServer, answers, running
from leadline.flows.prefect_server.ephemeral import TemporaryServer
from leadline.flows.prefect_server.logs import new_log, tail
from leadline.tasks.store.locks import locked
from leadline.tasks.store.user_folder import state_folder


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    yield
    kept = running()
    if kept is not None:
        with suppress(ProcessLookupError):
            os.killpg(kept.pid, signal.SIGKILL)


def python(script: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)


class Health(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"true")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/api"
        server.shutdown()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_api_answers_when_it_is_healthy_or_wants_a_key(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for status, expected in ((200, True), (401, True), (403, True), (404, False), (500, False)):
        monkeypatch.setattr(Health, "status", status)
        assert answers(api) is expected


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/api", "nonsense", "", "http://[::1", "file:///etc/passwd"])
def test_what_does_not_answer_is_no_api(url: str) -> None:
    assert answers(url, timeout=1) is False


def test_a_proxy_does_not_come_between_this_machine_and_itself(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert answers(api)


CHOICE = """
import os
from leadline.flows.prefect_server.resolve import ensure_api
with ensure_api() as api:
    print(api.kind, api.url == os.environ["PREFECT_API_URL"])
    from prefect.settings import PREFECT_API_URL
    print(PREFECT_API_URL.value() == api.url, "127.0.0.1" in os.environ["NO_PROXY"], os.environ["DO_NOT_TRACK"])
"""


def test_the_users_own_api_is_used_when_it_answers(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", api)
    done = python(CHOICE)
    assert done.stdout.split() == ["configured", "True", "True", "True", "1"]
    assert done.stderr == ""


def test_the_api_of_a_prefect_profile_counts_as_the_users_own(api: str, tmp_path: Path) -> None:
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "profiles.toml").write_text(
        f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{api}"\n', encoding="utf-8"
    )
    assert python(CHOICE).stdout.split()[0] == "configured"


def hold_lock(record: BackgroundServer | str | None) -> subprocess.Popen[str]:
    """Hold the server's lock as a running server does, with this record beside it."""
    script = (
        "import fcntl, sys\n"
        "from leadline.tasks.store.user_folder import state_folder\n"
        "file = (state_folder() / 'server.lock').open('ab')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    if record is not None:
        text = record if isinstance(record, str) else json.dumps({f: getattr(record, f) for f in record.__slots__})
        (state_folder() / "server.json").write_text(text, encoding="utf-8")
    return process


def kept_at(api: str, home: Path) -> BackgroundServer:
    return BackgroundServer(1, api.removesuffix("/api"), api, str(home), "2026-01-01T00:00:00Z", "/dev/null")


def test_the_kept_server_is_used_when_it_serves_the_same_home(api: str, tmp_path: Path) -> None:
    with hold_lock(kept_at(api, tmp_path / "prefect")) as holder:
        assert python(CHOICE).stdout.split()[0] == "background"
        holder.communicate("")


def test_a_record_without_a_server_misleads_nobody(api: str, tmp_path: Path) -> None:
    record = state_folder() / "server.json"
    record.write_text(json.dumps({f: getattr(kept_at(api, tmp_path), f) for f in BackgroundServer.__slots__}))
    assert running() is None
    assert not record.exists()


@pytest.mark.parametrize("record", [None, "", "{}", "[]", '{"pid": 1}'])
def test_a_server_that_is_just_starting_has_no_record_yet(record: str | None) -> None:
    with hold_lock(record) as holder:
        assert running() is None
        with pytest.raises(UsageError, match="just starting"):
            background.start()
        holder.communicate("")


def test_a_taken_port_is_refused_when_it_was_asked_for(api: str) -> None:
    with pytest.raises(UsageError, match="taken"):
        background.start(int(api.split(":")[2].split("/")[0]))


def test_state_goes_to_the_temporary_folder_where_the_home_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert tmp_path / "temporary" in state_folder().parents


def test_the_tail_of_a_log_is_one_line(tmp_path: Path) -> None:
    log = new_log("x")
    assert tail(log) == ""
    log.write_bytes(b"a\n\n  b \xff\nc\n")
    assert tail(log, 2) == "b \ufffd | c"


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock"):
            order.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


FLOW = """
import sys
from leadline.flows.prefect_server.resolve import ensure_api

def work():
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    step = task(lambda number: number, name="step", cache_policy=NO_CACHE)
    def body(count):
        return len([future.result() for future in step.map(range(count))])
    return flow(body, name="body")(50)

with ensure_api(meanwhile=lambda: None) as api:
    print(api.kind, work(), api.url, flush=True)
    if "kill" in sys.argv:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
"""


def history(home: Path) -> tuple[dict[str, int], int, list[str]]:
    """Return the number of task runs by state, the number of their states, and the states of the flow runs."""
    with sqlite3.connect(home / "prefect.db") as database:
        tasks = dict(database.execute("SELECT state_type, count(*) FROM task_run GROUP BY state_type").fetchall())
        (states,) = database.execute("SELECT count(*) FROM task_run_state").fetchone()
        flows = [state for (state,) in database.execute("SELECT state_type FROM flow_run").fetchall()]
    return tasks, states, flows


@pytest.mark.e2e
def test_a_temporary_server_has_the_whole_history_when_it_ends(home: Path, tmp_path: Path) -> None:
    done = python(FLOW)
    assert done.stdout.split()[:2] == ["temporary", "50"]
    assert "Starting a temporary Prefect server" in done.stderr
    assert history(home) == ({"COMPLETED": 50}, 150, ["COMPLETED"])
    assert list((tmp_path / "state" / "leadline" / "logs").iterdir()) == []
    with sqlite3.connect(home / "prefect.db") as database:
        assert database.execute("SELECT count(*) FROM events").fetchone()[0] >= 150


@pytest.mark.e2e
def test_a_temporary_server_writes_down_what_it_has_and_ends_when_its_run_is_killed(home: Path) -> None:
    process = subprocess.run([sys.executable, "-c", FLOW, "kill"], capture_output=True, text=True, timeout=100)
    assert process.returncode == -signal.SIGKILL
    _, _, url = process.stdout.split()
    deadline, logs = time.monotonic() + 30, state_folder() / "logs"
    while answers(url) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not answers(url)
    _, _, flows = history(home)
    assert flows == ["COMPLETED"]
    while any(logs.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(logs.iterdir()) == []


@pytest.mark.e2e
def test_two_runs_may_start_on_a_new_database_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FLOW]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        out, error = process.communicate(timeout=100)
        assert process.returncode == 0, error
        assert out.split()[:2] == ["temporary", "50"]
    assert history(tmp_path / "prefect") == ({"COMPLETED": 100}, 300, ["COMPLETED", "COMPLETED"])


@pytest.mark.e2e
def test_a_configured_api_that_is_down_is_said_and_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    done = python(CHOICE)
    assert done.stdout.split() == ["temporary", "True", "True", "True", "1"]
    assert "does not answer" in done.stderr


@pytest.mark.e2e
def test_a_server_that_cannot_start_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/no/such/folder/prefect.db"
    environment = os.environ | {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url}
    with TemporaryServer(environment) as server, pytest.raises(LeadlineError, match="did not start") as caught:
        server.wait()
    assert "\n" not in str(caught.value)
    assert Path(caught.value.hint.removeprefix("Its log: ")).stat().st_size > 0


@pytest.fixture
def _own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A working directory with the user's own modules of our rooms' names, which ``PYTHONPATH`` puts first."""
    for name in ("flows", "evaluators", "deployments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not mine')")
    (tmp_path / "tasks.py").write_text("raise SystemExit('not mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", str(Path(__file__).parents[3])]))


@pytest.mark.usefixtures("_own_modules")
def test_no_module_imports_the_working_directorys_own_rooms() -> None:
    script = (
        "import importlib, pkgutil, sys\n"
        "for room in ('flows', 'deployments'):\n"
        "    package = importlib.import_module(f'leadline.{room}')\n"
        "    for module in pkgutil.walk_packages(package.__path__, f'leadline.{room}.'):\n"
        "        importlib.import_module(module.name)\n"
        "from leadline.evaluators.core.registry import all_evaluators\n"
        "print(len(all_evaluators()), {'flows', 'tasks', 'evaluators', 'deployments'} & set(sys.modules))\n"
    )
    evaluators, _, foreign = python(script).stdout.strip().partition(" ")
    assert int(evaluators) > 60
    assert foreign == "set()"


@pytest.mark.e2e
@pytest.mark.usefixtures("home", "_own_modules")
def test_a_server_starts_beside_the_working_directorys_own_rooms() -> None:
    with TemporaryServer(dict(os.environ)) as server:
        assert answers(server.wait(), timeout=30)


@pytest.mark.e2e
def test_a_kept_server_starts_answers_and_stops(home: Path) -> None:
    leadline = [sys.executable, "-P", "-m", "leadline.flows.cli.main", "server"]

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*leadline, *arguments], capture_output=True, text=True, timeout=100, check=False)

    assert ask("status").stdout == "No server is running.\n"
    started = ask("start", "--port", str(free_port()))
    assert started.returncode == 0, started.stderr
    url = started.stdout.strip()
    assert ask("status").stdout.strip() == url
    status = json.loads(ask("status", "--json").stdout)
    assert status["running"]
    assert status["answers"]
    assert status["prefect_home"] == str(home)
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))):
        pass
    again = ask("start")
    assert again.returncode == 2
    assert url in again.stderr
    assert python(FLOW).stdout.split()[:2] == ["background", "50"]
    assert ask("stop").returncode == 0
    assert not answers(f"{url}/api")
    assert json.loads(ask("status", "--json").stdout) == {"running": False}
    assert "No server is running" in ask("stop").stderr


@pytest.mark.e2e
def test_a_kept_server_that_was_killed_is_noticed_and_can_be_started_anew(home: Path) -> None:
    first = background.start(free_port())
    os.killpg(first.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(first.pid, 0)
    assert running() is None
    second = background.start(free_port())
    assert second.pid != first.pid
    assert background.stop() == second
    assert running() is None
