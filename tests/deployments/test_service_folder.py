"""The service's folder: what a second start, a taken port and a restart make of it. tests/service runs the whole."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.cli.examinations import State, examine_store
from leadline.deployments.postgres import initialise
from leadline.deployments.service import FOLDER, WORKERS, Service, default_workers, free_port, main, running
from leadline.tasks.ground.files import locked
from leadline.tasks.store.store import FORMAT, format_of
from tests.support.processes.waiting import eventually


@contextmanager
def taken(port: int = 0) -> Iterator[int]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_second_start_is_refused_and_leaves_the_running_service_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(tmp_path / "lock"):
        (tmp_path / "service.json").write_text('{"pid": 4711}')
        assert main(["start", "--folder", str(tmp_path)]) == 2
        assert "already running" in capsys.readouterr().err
        assert running(tmp_path) == {"pid": 4711}


def test_a_taken_port_is_refused_by_the_name_of_the_variable_that_chooses_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken() as port:
        assert main(["start", "--folder", str(tmp_path), "--port", str(port)]) == 2
    assert "LEADLINE_SERVICE_PORT=N" in capsys.readouterr().err
    assert running(tmp_path) is None


def test_ports_outlive_a_restart_and_only_a_taken_one_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(tmp_path)
    first = {part: service._lasting_port(part) for part in ("postgres", "redis")}
    again = Service(tmp_path)
    assert {part: again._lasting_port(part) for part in first} == first
    with taken(first["redis"]):
        other = again._lasting_port("redis")
    assert other != first["redis"]
    assert "source" in capsys.readouterr().err
    assert (again._lasting_port("postgres"), again._lasting_port("redis")) == (first["postgres"], other)
    (tmp_path / "ports.json").write_text('{"postgres": "x", "redis')
    assert again._lasting_port("postgres") > 0


def test_logs_are_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "old" / "logs").mkdir(parents=True)
    (tmp_path / "old" / "logs" / "server.log").write_text("said", encoding="utf-8")
    for name in ("new", "old"):
        before = os.umask(0o022)
        try:
            service = Service(tmp_path / name)
            service._processes.open_log("server").close()
        finally:
            os.umask(before)
        log = service._processes.log("server")
        assert [stat.S_IMODE(path.stat().st_mode) for path in (log.parent, log)] == [0o700, 0o600]
    assert log.read_text(encoding="utf-8") == "said"


@pytest.fixture
def in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which somebody with the common umask starts the service."""
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def modes(*paths: Path) -> list[str]:
    return [oct(stat.S_IMODE(path.stat().st_mode)) for path in paths]


def test_the_store_around_a_new_service_is_private_and_of_todays_format(in_project: Path) -> None:
    Service(FOLDER)
    store = in_project / ".leadline"
    assert modes(store, store / "service", store / "service" / "prefect") == ["0o700"] * 3
    found = [(one.state, one.found) for one in examine_store(None)]
    assert {state for state, _ in found} == {State.OK}
    assert {f".leadline, format {FORMAT}", "for its user alone (mode 700)"} <= {said for _, said in found}


def test_a_service_in_a_store_of_another_place_makes_that_one_as_well(
    in_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STORE", "ours")
    Service(Path("ours/service"))
    assert (modes(in_project / "ours"), format_of(in_project / "ours")) == (["0o700"], FORMAT)
    assert not (in_project / ".leadline").exists()


def test_a_store_that_is_shared_on_purpose_stays_as_it_is(in_project: Path) -> None:
    (in_project / ".leadline").mkdir()
    (in_project / ".leadline").chmod(0o770)
    Service(FOLDER)
    assert modes(in_project / ".leadline", in_project / ".leadline" / "service") == ["0o770", "0o700"]


@pytest.mark.parametrize(
    ("device", "visible", "workers"),
    [
        ("nvidia0", None, 1),
        ("nvidia7", "0", 1),
        ("kfd", None, 1),
        ("nvidia0", "", 0),
        ("nvidia0", "-1", 0),
        ("x", None, 0),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="Apple's processors have a GPU")
def test_the_pool_of_gpus_gets_a_worker_only_where_a_gpu_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, visible: str | None, workers: int
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / device).touch()
    assert default_workers(tmp_path) == WORKERS | {"gpu": workers}


@pytest.mark.e2e
def test_postgresql_keeps_its_data_in_a_folder_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    postgres = initialise(tmp_path / "postgres", free_port(0))
    for _ in range(2):  # the second time with the data of the first
        process = subprocess.Popen(postgres.command(), cwd=tmp_path, stdin=subprocess.DEVNULL)
        try:
            eventually(postgres.answers, 30, "PostgreSQL answers")
            postgres.ensure("leadline")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert modes(tmp_path, tmp_path / "postgres" / "data") == ["0o700", "0o700"]


def test_the_token_of_the_reading_page_is_drawn_once_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEADLINE_UI_TOKEN", raising=False)
    first = Service(tmp_path).token()
    assert len(first) == 32
    assert Service(tmp_path).token() == first
    assert (tmp_path / "reports-token").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("LEADLINE_UI_TOKEN", "one of my own")
    assert Service(tmp_path).token() == "one of my own"


def test_the_first_port_of_a_part_is_the_wanted_one_if_it_is_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken() as port:
        assert Service(tmp_path / "a")._lasting_port("reports", port) != port
    assert capsys.readouterr().err == ""
    assert Service(tmp_path / "b")._lasting_port("reports", port) == port


def test_a_start_keeps_what_people_have_deployed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []

    def deploy(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        said = "unchanged  work pool cpu\nkept       deployment evaluate/evaluate\n"
        return subprocess.CompletedProcess(command, 0, "", said)

    monkeypatch.setattr(subprocess, "run", deploy)
    Service(tmp_path)._deploy({})
    Service(tmp_path, file=Path("mine.yaml"))._deploy({})
    assert [command[-1] for command in ran] == ["--keep", "mine.yaml"]
    assert "Kept as a file of your own has it: deployment evaluate/evaluate." in capsys.readouterr().err
