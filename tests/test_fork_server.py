"""Programs that are forked are what the same programs are that are started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import fork_server
from tests.support.processes.descendants import descendants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

SEEN = """
import leadline, json, os, subprocess, sys
from prefect.settings import PREFECT_HOME
print(json.dumps({
    "arguments": sys.argv, "folder": os.getcwd(), "variable": os.environ.get("TEST_VARIABLE"), "name": __name__,
    "path": sys.path[0], "parent": os.getppid(), "group": os.getpgid(0) == os.getpid(),
    "home": str(PREFECT_HOME.value()),
    "read": sys.stdin.read(), "umask": os.umask(0o077), "forked": subprocess.Popen.__name__ == "ForkedPopen",
}))
print("to the other", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(autouse=True, params=["1", "0"], ids=["forked", "started"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways, which no test may tell apart."""
    monkeypatch.setenv(fork_server.SWITCH, request.param)
    return str(request.param)


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def test_a_program_has_its_own_arguments_variables_folder_streams_settings_and_exit_code(
    tmp_path: Path, way: str
) -> None:
    variables = os.environ | {"TEST_VARIABLE": "é", "PREFECT_HOME": str(tmp_path / "home")}
    done = python("-c", SEEN, "one", "", env=variables, cwd=tmp_path, input="in\n", umask=0o026, start_new_session=True)
    assert (done.returncode, done.stderr) == (7, "to the other\n")
    seen = json.loads(done.stdout)
    assert seen.pop("forked") == (way == "1")
    assert seen == {
        "arguments": ["-c", "one", ""], "folder": str(tmp_path), "variable": "é", "name": "__main__", "path": "",
        "parent": os.getpid(), "group": True, "home": str(tmp_path / "home"), "read": "in\n",
        "umask": 0o026,
    }  # fmt: skip


def test_a_program_has_the_umask_of_the_process_that_starts_it() -> None:
    before = os.umask(0o027)
    try:
        assert python("-c", "import leadline, os; print(os.umask(0))").stdout == f"{0o027}\n"
    finally:
        os.umask(before)


def test_an_error_and_an_interrupt_end_a_program_as_ever() -> None:
    done = python("-c", "import leadline; raise ValueError('so')")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ValueError: so")
    assert python("-c", "import leadline, sys; sys.exit('why')").stderr == "why\n"
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        # A signal just before a call of sleep does not cut it short.
        program = "import leadline, time; print(flush=True); [time.sleep(0.1) for _ in range(600)]"
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(sent)
            assert process.wait(30) == -sent


def test_what_is_registered_for_the_end_and_other_threads_run_to_theirs() -> None:
    program = (
        "import leadline, atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('first')"
    )
    assert python("-c", program).stdout.split() == ["first", "thread", "last"]


def test_programs_start_others_as_their_own_children() -> None:
    inner = "import leadline, os; print(os.getppid())"
    program = (
        "import leadline, os, subprocess, sys\nprint(os.getpid(), flush=True)\n"
        f"subprocess.run([sys.executable, '-c', {inner!r}])"
    )
    me, parent = python("-c", program).stdout.split()
    assert me == parent


def test_a_server_that_was_killed_is_replaced() -> None:
    program = "import leadline, subprocess; print(subprocess.Popen.__name__)"
    before = python("-c", program).stdout
    for pid, _ in descendants(os.getpid()):
        if b"fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    assert python("-c", program).stdout == before != ""


def test_another_python_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import leadline, sys; print(sys.flags.utf8_mode, sys.flags.dont_write_bytecode)"
    other = os.environ | {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    assert python("-c", program, env=other).stdout == "1 1\n"
    monkeypatch.setenv("PYTHONUTF8", "1")
    without = {name: value for name, value in os.environ.items() if name != "PYTHONUTF8"}
    assert python("-c", program.replace("print", "import subprocess; print"), env=without).stdout == "0 0\n"


def test_a_module_is_run_as_the_main_one() -> None:
    done = python("-P", "-m", "leadline.cli.main", "nonsense")
    assert done.returncode == 2
    assert done.stderr.startswith("Error [LL-CONFIG-02]")
    assert "Version" in python("-m", "prefect", "version").stdout


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", "import leadline, sys; print(sorted(sys.modules))"],
        [sys.executable, "-I", "-c", "import leadline"],
        [sys.executable, "script.py"],
        [sys.executable, "-m", "pytest", "-q"],
        ["git", "leadline"],
    ],
)
def test_what_looks_at_how_it_was_started_is_started(command: list[str]) -> None:
    assert fork_server.program_of(command) is None
