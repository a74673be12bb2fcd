"""The Prefect servers: which one a run uses, that its history is complete, and that one is kept and ended cleanly."""

from __future__ import annotations

import asyncio
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
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.flows.prefect import background, resolve
from leadline.flows.prefect.background import BackgroundServer, _place, answers, running
from leadline.flows.prefect.choice import Choice, ServerUse, minutes
from leadline.flows.prefect.database import SCHEMA, create, statements
from leadline.flows.prefect.ephemeral import TemporaryServer
from leadline.flows.prefect.logs import new_log, tail
from leadline.flows.prefect.prefect_settings import configured_api, prefect_home
from leadline.flows.prefect.resolve import ensure_api, lasting_api
from leadline.flows.prefect.serving import Activity
from leadline.tasks.ground.locks import locked
from leadline.tasks.ground.user_folder import state_folder
from tests.support.processes.ports import free_port


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("LEADLINE_SERVER", "temporary")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    yield
    kept = running()
    if kept is not None and kept.pid > 1:
        with suppress(ProcessLookupError):
            os.killpg(kept.pid, signal.SIGKILL)


def python(script: str, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


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
from leadline.flows.prefect.resolve import ensure_api
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
        "from leadline.flows.prefect.background import _place\n"
        "file = _place('.lock').open('ab')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    if record is not None:
        text = record if isinstance(record, str) else json.dumps({f: getattr(record, f) for f in record.__slots__})
        _place(".json").write_text(text, encoding="utf-8")
    return process


def kept_at(api: str, **changes: Any) -> BackgroundServer:
    kept = BackgroundServer(
        pid=1,
        url=api.removesuffix("/api"),
        api=api,
        services="runs",
        prefect_home="",
        prefect=background.prefect_version(),
        idle_minutes=30.0,
        started="2026-01-01T00:00:00Z",
        log="/dev/null",
    )
    return replace(kept, **changes)


def test_the_kept_server_is_used(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "kept")
    with hold_lock(kept_at(api)) as holder:
        done = python(CHOICE)
        assert done.stdout.split()[0] == "background"
        assert done.stderr == ""  # nothing is said where nothing is started
        monkeypatch.setenv("PREFECT_HOME", str(state_folder()))
        assert running() is None  # there is one for each PREFECT_HOME
        holder.communicate("")


def test_a_server_of_another_prefect_is_not_used(api: str) -> None:
    with hold_lock(kept_at(api, prefect="3.0.0")) as holder:
        said: list[str] = []
        with ensure_api(said.append, choice=Choice(ServerUse.KEPT)) as found:
            assert found is None
        assert "is of version 3.0.0" in said[0]
        assert "without Prefect" in said[0]
        holder.communicate("")


def test_a_server_that_hangs_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/api"
        with hold_lock(kept_at(url)) as holder:
            with pytest.raises(LeadlineError, match="does not answer after 1 s"):
                background.wait(timeout=1)
            holder.communicate("")


def test_a_server_that_runs_started_serves_no_deployments(api: str) -> None:
    with hold_lock(kept_at(api)) as holder:
        with pytest.raises(UsageError, match="serves deployments"), lasting_api():
            pytest.fail("the block was entered")
        with pytest.raises(UsageError, match="A run uses"), background.use():
            background.start()
        holder.communicate("")
    with hold_lock(kept_at(api, services="all")) as holder:
        with lasting_api() as found:
            assert found.url == api
        with pytest.raises(UsageError, match="running already"):
            background.start()
        holder.communicate("")


def test_a_record_without_a_server_misleads_nobody(api: str) -> None:
    _place(".json").write_text(json.dumps(asdict(kept_at(api))))
    assert running() is None
    with pytest.raises(LeadlineError, match="ended as it started"):
        background.wait()


@pytest.mark.parametrize("record", [None, "", "{}", "[]", '{"pid": 1}'])
def test_a_server_that_is_just_starting_has_no_record_yet(record: str | None) -> None:
    with hold_lock(record) as holder:
        assert running() is None
        assert not background.launch(idle_minutes=None)
        with pytest.raises(UsageError, match="just starting"):
            background.start()
        holder.communicate("")


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


@pytest.mark.parametrize(("text", "read"), [("30", 30.0), ("0.5", 0.5), ("never", None)])
def test_a_kept_server_stays_for_a_number_of_minutes(text: str, read: float | None) -> None:
    assert minutes(text, "here") == read


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "30m"])
def test_no_other_text_says_how_long_a_server_stays(text: str) -> None:
    with pytest.raises(UsageError, match="neither a number of minutes nor 'never'"):
        minutes(text, "here")


def test_a_server_is_idle_when_nothing_is_asked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("leadline.flows.prefect.serving.time.monotonic", lambda: now)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        assert not activity.idle(0)  # a request is in work

    activity = Activity(answer)

    def ask(path: str) -> None:
        asyncio.run(activity({"type": "http", "path": path}, None, None))  # type: ignore[arg-type]

    ask("/api/health")
    now = 61.0
    assert activity.idle(1800)  # it was only asked whether it answers
    ask("/api/flows/")
    now += 1799
    assert not activity.idle(1800)
    now += 2
    assert activity.idle(1800)


def test_a_kept_server_holds_none_of_a_runs_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PREFECT_API_KEY", "HARBOUR"):
        monkeypatch.setenv(name, "secret")
    assert {name for name, value in background._environment("runs").items() if value == "secret"} == {
        "PREFECT_API_KEY",
        "HARBOUR",
    }


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
from leadline.flows.prefect.resolve import ensure_api

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
def test_a_new_database_is_the_one_that_prefects_migrations_make(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "leadline.flows.prefect.database"]
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
def test_a_temporary_server_has_the_whole_history_when_it_ends(home: Path, tmp_path: Path) -> None:
    done = python(FLOW)
    assert done.stdout.split()[:2] == ["temporary", "50"]
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
def test_commands_at_once_start_one_kept_server_which_ends_when_it_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "kept")
    monkeypatch.setenv("LEADLINE_SERVER_IDLE", "0.05")
    command = [sys.executable, "-c", FLOW]
    with ExitStack() as stack:
        with suppress(OSError):  # somebody else's, as good
            stack.enter_context(socket.create_server(("127.0.0.1", background.DEFAULT_PORT)))
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said, urls = "", set()
        for process in both:
            out, error = process.communicate(timeout=100)
            assert process.returncode == 0, error
            assert out.split()[:2] == ["background", "50"]
            urls.add(out.split()[2])
            said += error
        assert said.count("A Prefect server was started for this and further commands") == 1
        assert len(urls) == 1
        assert f":{background.DEFAULT_PORT}/" not in urls.pop()
        kept = running()
        assert kept is None or kept.services == "runs"
    deadline = time.monotonic() + 60
    while background._is_locked() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not background._is_locked()
    assert history(home) == ({"COMPLETED": 100}, 300, ["COMPLETED", "COMPLETED"])


KILLED = """
import os, signal, time
from leadline.flows.prefect.background import running
from leadline.flows.prefect.resolve import ensure_api
from leadline.flows.prefect.prefect_steps import TaskSteps, finished, recorded

with ensure_api() as api:
    from prefect import flow

    @flow
    def work(number):
        steps = TaskSteps()
        steps.step("before", lambda: print("before"))
        os.killpg(running().pid, signal.SIGKILL)
        steps.step("after", lambda: print("after"))
        steps.show("summary", "text", "description")
        return finished(number + 1)

    print(recorded(work, 41, None), flush=True)
    ended = time.monotonic()

print(time.monotonic() - ended < 5, flush=True)
os._exit(0)
"""


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_a_run_is_not_lost_with_the_server_that_records_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "kept")
    background.launch(idle_minutes=30, port=free_port())  # no server of another test takes its place, and answers
    assert python(KILLED).stdout.split() == ["before", "after", "42", "True"]


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


def test_a_server_that_recorded_nothing_lacks_nothing() -> None:
    assert TemporaryServer(os.environ).stop()


def test_the_history_is_sent_beside_a_running_event_loop() -> None:
    async def block() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            resolve._send_all("http://127.0.0.1:9/api")
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
def test_a_kept_server_starts_answers_and_stops(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "kept")
    leadline = [sys.executable, "-P", "-m", "leadline.cli.main", "server"]

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
