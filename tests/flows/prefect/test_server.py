"""The Prefect servers: which one a run uses, that its history is complete, and that one is kept and ended cleanly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.cli.main import run
from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.flows.prefect import server as prefect_server
from leadline.flows.prefect import serving
from leadline.flows.prefect.server import (
    BackgroundServer,
    ServerUse,
    _place,
    answers,
    configured_api,
    ensure_api,
    lasting_api,
    prefect_home,
    running,
)
from leadline.flows.prefect.serving import SCHEMA, create
from leadline.flows.shared.logs import new_log, tail
from leadline.tasks.ground.files import locked, state_folder
from leadline.tasks.ground.processes import process_record
from tests.support.prefect_schema import statements
from tests.support.processes.http_servers import QuietHandler, serving_http
from tests.support.processes.ports import free_port

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    yield
    kept = running()
    if kept is not None and kept.pid > 1:
        with suppress(ProcessLookupError):
            os.killpg(kept.pid, signal.SIGKILL)


def python(script: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


class Health(QuietHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"true")


@pytest.fixture
def api() -> Iterator[str]:
    with serving_http(Health) as address:
        yield f"{address}/api"


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
from leadline.flows.prefect.server import ensure_api
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


def keep(api: str, process: dict[str, Any] | None = None, **changes: Any) -> BackgroundServer:
    """Write the record of a kept server whose process is this one."""
    kept = BackgroundServer(
        pid=1,
        url=api.removesuffix("/api"),
        api=api,
        prefect_home="",
        prefect=prefect_server.prefect_version(),
        idle_minutes=30.0,
        started="2026-01-01T00:00:00Z",
        log="/dev/null",
    )
    kept = replace(kept, **changes)
    _place(".json").write_text(json.dumps(asdict(kept) | {"process": process or process_record()}), encoding="utf-8")
    return kept


def test_the_kept_server_is_used(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(api)
    done = python(CHOICE)
    assert done.stdout.split() == ["kept", "True", "True", "True", "1"]
    assert done.stderr == ""
    with lasting_api() as found:
        assert found.url == api
    monkeypatch.setenv("PREFECT_HOME", str(state_folder()))
    assert running() is None  # there is one for each PREFECT_HOME


def said_without_a_server(use: ServerUse | None = None) -> list[str]:
    """Return what a run says that takes no server."""
    said: list[str] = []
    with ensure_api(said.append, use) as found:
        assert found is None
        assert "PREFECT_API_URL" not in os.environ or os.environ["PREFECT_API_URL"] == configured_api()
    return said


def test_a_run_without_a_server_says_how_to_keep_history_and_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI")
    monkeypatch.setattr("subprocess.Popen", None)
    line = "No Prefect server: this run is not in a UI. Start one with: leadline service server start"
    assert said_without_a_server() == [line]
    assert said_without_a_server(ServerUse.NONE) == []
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    assert said_without_a_server() == []
    monkeypatch.delenv("LEADLINE_SERVER")
    monkeypatch.setenv("CI", "1")
    assert said_without_a_server() == []


def test_a_server_that_cannot_be_used_is_named(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(api, prefect="3.0.0")
    assert "is of version 3.0.0" in said_without_a_server()[0]
    gone = f"http://127.0.0.1:{free_port()}"
    keep(f"{gone}/api")
    assert said_without_a_server() == [
        f"The kept Prefect server at {gone} does not answer: this run is not recorded there."
    ]
    keep(api)
    monkeypatch.setenv("PREFECT_API_URL", f"{gone}/api")
    assert said_without_a_server() == [
        f"Prefect's API at {gone}/api (PREFECT_API_URL) does not answer: this run is not recorded there."
    ]
    with pytest.raises(LeadlineError, match="does not answer"), lasting_api():
        pytest.fail("the block was entered")
    assert said_without_a_server(ServerUse.NONE) == []


def test_deployments_want_a_server() -> None:
    with pytest.raises(UsageError, match="No Prefect server is running or configured"), lasting_api():
        pytest.fail("the block was entered")


def test_a_record_counts_while_the_process_that_wrote_it_lives(api: str) -> None:
    kept = keep(api)
    assert running() == kept
    keep(api, process_record() | {"started": "1"})  # the number was given again
    assert running() is None
    keep(api, process_record() | {"host": "another"})
    assert running() is None
    for text in ("", "{", "[]", "{}", '{"pid": 1}'):
        _place(".json").write_text(text, encoding="utf-8")
        assert running() is None


def test_a_server_that_runs_is_not_started_again(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    kept = keep(api)
    assert prefect_server.start() == kept
    assert prefect_server.start(int(kept.url.rpartition(":")[2])) == kept
    with pytest.raises(UsageError, match="running already"):
        prefect_server.start(free_port())
    keep(api, prefect="3.0.0")
    with pytest.raises(UsageError, match=r"of version 3.0.0.*leadline service server stop"):
        prefect_server.start()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("profiles.toml", 'active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://a/api"\n'),
        ("profiles.toml", '[profiles.a]\nPREFECT_API_URL = "http://a/api"\n'),
        ("profiles.toml", "active = "),
        ("prefect.toml", 'home = "~/elsewhere"\n[api]\nurl = "http://b/api"\n'),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://c/api"\n'),
        (".env", "PREFECT_API_URL=http://d/api\nPREFECT_HOME=/tmp/other\n"),
        ("nothing", ""),
    ],
)
@pytest.mark.parametrize("home", ["prefect", None])
def test_prefects_home_and_api_are_those_that_prefect_itself_reads(
    file: str, text: str, home: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from prefect.settings import Settings

    monkeypatch.chdir(tmp_path)
    if home:
        monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    else:
        monkeypatch.delenv("PREFECT_HOME")
    (tmp_path / file).write_text(text)
    try:
        settings = Settings()
    except ValueError:  # of TOML; Prefect says what is wrong once it is used
        assert configured_api() is None
        return
    assert configured_api() == settings.api.url
    assert prefect_home() == settings.home


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "30m"])
def test_a_server_stays_for_a_number_of_minutes_or_for_good(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["service", "server", "start", "--idle", text]) == 2
    assert "neither a number of minutes nor 'never'" in capsys.readouterr().err


def test_a_server_is_unused_when_nothing_is_asked_for_a_while() -> None:
    state = SimpleNamespace(tasks={"a run's socket"}, total_requests=0)

    async def use() -> float:
        unused = asyncio.create_task(serving._unused(SimpleNamespace(server_state=state), 0.4))  # type: ignore[arg-type]
        await asyncio.sleep(0.8)
        assert not unused.done(), "a socket was open"
        state.tasks.clear()
        for _ in range(4):
            state.total_requests += 1
            await asyncio.sleep(0.2)
            assert not unused.done(), "it was asked"
        began = time.monotonic()
        await asyncio.wait_for(unused, 30)
        return time.monotonic() - began

    assert asyncio.run(use()) > 0.1


def test_a_kept_server_holds_none_of_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}

    def popen(*_: Any, env: dict[str, str], **__: Any) -> None:
        given.update(env)
        raise OSError("no more processes")

    for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PREFECT_API_KEY", "HARBOUR"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setattr("subprocess.Popen", popen)
    with pytest.raises(OSError, match="no more processes"):
        prefect_server.start()
    assert {name for name, value in given.items() if value == "secret"} == {"PREFECT_API_KEY", "HARBOUR"}


def test_another_port_is_taken_where_the_usual_one_is_taken(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = int(api.split(":")[2].split("/")[0])
    monkeypatch.setattr(prefect_server, "DEFAULT_PORT", taken)
    assert prefect_server._free_port(None) not in (0, taken)


def test_a_taken_port_is_refused_when_it_was_asked_for(api: str) -> None:
    with pytest.raises(UsageError, match="taken"):
        prefect_server.start(int(api.split(":")[2].split("/")[0]))


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
from leadline.flows.prefect.server import ensure_api, prefect_client

def work():
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    step = task(lambda number: number, name="step", cache_policy=NO_CACHE)
    def body(count):
        return len([future.result() for future in step.map(range(count))])
    return flow(body, name="body")(50)

with ensure_api() as api, prefect_client(api):
    print(api.kind, work(), flush=True)
"""


def history(home: Path) -> tuple[dict[str, int], int, list[str]]:
    """Return the number of task runs by state, the number of their states, and the states of the flow runs."""
    with sqlite3.connect(home / "prefect.db") as database:
        tasks = dict(database.execute("SELECT state_type, count(*) FROM task_run GROUP BY state_type").fetchall())
        (states,) = database.execute("SELECT count(*) FROM task_run_state").fetchone()
        flows = [state for (state,) in database.execute("SELECT state_type FROM flow_run").fetchall()]
    return tasks, states, flows


@pytest.mark.e2e
def test_a_new_database_is_the_one_that_prefects_migrations_make(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.prefect_schema"]
    migrated = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout

    def parts(script: str) -> list[str]:  # migrations leave the constraints of a table in any order
        return sorted(line.strip(" \t,") for line in script.splitlines())

    written = SCHEMA.read_text(encoding="utf-8")
    assert parts(migrated) == parts(written), "write prefect_schema.sql anew"
    file = tmp_path / "prefect.db"
    assert create(file, written)
    made = "\n".join(f"{statement};" for statement in statements(file))
    assert [line.rstrip() for line in made.splitlines()] == written.splitlines()[1:]
    file.write_bytes(b"")
    assert not create(file, written), "what is there is left alone"
    assert [each.name for each in tmp_path.iterdir() if "tmp" in each.name] == []


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_a_server_ends_when_it_is_not_used() -> None:
    kept = prefect_server.start(free_port(), idle_minutes=0.05)
    deadline = time.monotonic() + 60
    while running() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running() is None
    assert not answers(kept.api)


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_of_two_starts_at_once_one_starts_the_server_that_both_name() -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "leadline.cli.main",
        "service",
        "server",
        "start",
        "--port",
        str(free_port()),
    ]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    kept = running()
    assert kept is not None
    assert {out.strip() for out, _ in said} == {kept.url}


KILLED = """
import os, signal, time
from pydantic import BaseModel
from leadline.flows.shared.job import Job
from leadline.flows.prefect.server import running
from leadline.flows.prefect.server import ensure_api
from leadline.flows.shared.form import FormModel

class Number(FormModel):
    number: int
    store: str | None = None

class Outcome(BaseModel):
    number: int

class Work(Job):
    name, Config = "work", Number

    def check(self, config):
        return config.number

    def run(self, config, checked, steps):
        steps.step("before", lambda: print("before"))
        os.killpg(running().pid, signal.SIGKILL)
        steps.step("after", lambda: print("after"))
        steps.show("summary", "text", "description")
        return Outcome(number=checked + 1)

with ensure_api() as api:
    from leadline.flows.prefect.kept_history import recorded

    began = time.monotonic()
    print(recorded(api, Work(), Number(number=41), 41).number, flush=True)

print(time.monotonic() - began < 40, flush=True)
os._exit(0)
"""


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_a_run_is_not_lost_with_the_server_that_records_it() -> None:
    prefect_server.start(free_port())  # no server of another test takes its place, and answers
    assert python(KILLED).stdout.split() == ["before", "after", "42", "True"]


@pytest.mark.e2e
def test_a_server_that_cannot_start_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/no/such/folder/prefect.db"
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", url)
    with pytest.raises(LeadlineError, match="ended as it started") as caught:
        prefect_server.start(free_port())
    assert "\n" not in str(caught.value)
    assert Path(caught.value.hint.removeprefix("Its log: ")).stat().st_size > 0


def test_the_history_is_sent_beside_a_running_event_loop() -> None:
    async def block() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prefect_server._send_all("http://127.0.0.1:9/api")
        assert [str(warning.message) for warning in caught] == []

    asyncio.run(block())


@pytest.fixture
def _own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A working directory with the user's own modules of our rooms' names, which ``PYTHONPATH`` puts first."""
    for name in ("flows", "evaluators", "deployments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not mine')")
    (tmp_path / "tasks.py").write_text("raise SystemExit('not mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", str(ROOT)]))


@pytest.mark.usefixtures("_own_modules")
def test_no_module_imports_the_working_directorys_own_rooms() -> None:
    rooms = ("flows", "deployments") if (ROOT / "plugins").is_dir() else ("flows",)  # deployments serves plug-ins, too
    script = (
        "import importlib, pkgutil, sys\n"
        f"for room in {rooms!r}:\n"
        "    package = importlib.import_module('leadline.' + room)\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "from leadline.evaluators.core.registry import all_evaluators\n"
        "print(len(all_evaluators()), {'flows', 'tasks', 'evaluators', 'deployments'} & set(sys.modules))\n"
    )
    evaluators, _, foreign = python(script).stdout.strip().partition(" ")
    assert int(evaluators) > 60
    assert foreign == "set()"


@pytest.mark.e2e
def test_a_kept_server_starts_answers_and_has_the_whole_history_when_it_has_stopped(home: Path) -> None:
    leadline = [sys.executable, "-P", "-m", "leadline.cli.main", "service", "server"]

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
    assert (again.returncode, again.stdout.strip()) == (0, url)
    assert "Starting" not in again.stderr
    assert ask("start", "--port", str(free_port())).returncode == 2
    assert python(FLOW).stdout.split() == ["kept", "50"]
    assert ask("stop").returncode == 0
    assert not answers(f"{url}/api")
    assert history(home) == ({"COMPLETED": 50}, 150, ["COMPLETED"])
    with sqlite3.connect(home / "prefect.db") as database:
        assert database.execute("SELECT count(*) FROM events").fetchone()[0] >= 150
    assert json.loads(ask("status", "--json").stdout) == {"running": False}
    assert "No server is running" in ask("stop").stderr


@pytest.mark.e2e
@pytest.mark.usefixtures("home", "_own_modules")
def test_a_server_starts_beside_the_working_directorys_own_rooms_and_anew_when_it_was_killed() -> None:
    first = prefect_server.start(free_port())
    assert answers(first.api, timeout=30)
    os.killpg(first.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(first.pid, 0)
    assert running() is None
    second = prefect_server.start(free_port())
    assert second.pid != first.pid
    assert prefect_server.stop() == second
    assert running() is None
