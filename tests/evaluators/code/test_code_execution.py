"""Programs pass or fail their tests, and those that mean harm do none."""

import sys
import tempfile
from pathlib import Path

import pytest

from leadline.evaluators.code._sandbox import run_sandboxed
from leadline.evaluators.code.code_execution import SWITCH, CodeExecution
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.row import NotApplicable, Reason, Row, Unscored

LINUX = sys.platform.startswith("linux")
linux = pytest.mark.skipif(not LINUX, reason="rights are taken away on Linux")
GOOD = "def add(a, b):\n    return a + b\n"


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(SWITCH, "1")


def score(answer, tests="assert add(1, 2) == 3", entry=None, expected=(), **params):
    metadata = {"tests": tests} | ({"entry_point": entry} if entry else {})
    row = Row("c", "m", actual_answer=answer, expected_answers=expected, metadata=metadata)
    params = {"allow": True, "allow_network": not LINUX} | params
    [result] = CodeExecution(CodeExecution.parameters(**params)).score([row], EvalContext())
    return result


def value(*args, **params):
    return score(*args, **params).values["pass_at_1"]


def run(program, tests="pass", seconds=5.0, memory_mb=256):
    return run_sandboxed(program, tests, "", seconds=seconds, memory_mb=memory_mb, allow_network=False)


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (GOOD, 1.0),
        (f"Here you are:\n```python\n{GOOD}```\n", 1.0),
        ("def add(a, b):\n    return a - b\n", 0.0),
        ("def add(a, b:", 0.0),
        ("import sys; sys.exit(0)", 0.0),
        ("import os; os._exit(0)", 0.0),
        ("raise KeyboardInterrupt", 0.0),
        ("", 0.0),
    ],
)
def test_a_program_passes_its_tests_or_not(answer, passes):
    assert value(answer) == passes


def test_tests_are_called_with_an_entry_point_as_in_humaneval():
    tests = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    assert value(GOOD, tests, "add") == 1.0
    assert value(GOOD, tests.replace("3", "4"), "add") == 0.0


def test_tests_may_stand_in_the_expected_answer():
    assert value(GOOD, "", expected=("assert add(2, 2) == 4",), tests_in="expected_answer") == 1.0


def test_a_failure_says_where():
    assert score(GOOD, "assert add(1, 2) == 4, 'sum'").evidence.message == "A test fails: AssertionError: sum"


def test_nothing_is_run_unless_both_switches_are_on(monkeypatch):
    assert isinstance(value(GOOD, allow=False), NotApplicable)
    monkeypatch.delenv(SWITCH)
    found = value(GOOD)
    assert isinstance(found, Unscored)
    assert found.reason is Reason.EVALUATOR_ERROR


def test_rows_without_tests_or_with_broken_ones_are_not_scored():
    assert isinstance(value(GOOD, " "), NotApplicable)
    assert value(GOOD, "assert (").reason is Reason.UNSCORABLE


@linux
@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "x = bytearray(10**10)",
        "open('big', 'wb').write(b'x' * 10**8)",
        "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "[open('/dev/null') for _ in range(100)][99]\nkept = [open('/dev/null') for _ in range(100)]",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_a_program_that_takes_what_it_may_not_fails(program):
    assert run(program, seconds=1.0).status in ("failed", "timeout", "killed")


@linux
def test_no_further_processes_are_started() -> None:
    if not run("pass").isolation["processes"]:
        pytest.skip("root has no limit of processes, and nobody may not read this Python")
    for program in ("import os; os.fork()", "import os; os.posix_spawn('/bin/true', ['true'], {})"):
        assert run(program).status == "failed"


@linux
def test_no_other_process_gets_a_signal_and_no_socket_is_opened_where_the_kernel_has_seccomp() -> None:
    if not run("pass").isolation["signals"]:
        pytest.skip("this kernel has no seccomp, or this kind of processor is not known")
    for program in (
        "import os; os.kill(os.getppid(), 0)",
        "import os, signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
        "import socket; socket.socket(socket.AF_UNIX)",
        "import ctypes; assert ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0) == 0",
    ):
        assert run(program).status == "failed", program
    assert run("import threading; threading.Thread(target=print).start()").status == "passed"
    assert run("import asyncio", "asyncio.run(asyncio.sleep(0))").status == "passed"


@pytest.mark.parametrize(
    "program",
    [
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\n",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\n",
        "import pickle\nclass P:\n    x = 1\nassert pickle.loads(pickle.dumps(P())).x == 1",
        "class P:\n    x: int = 1\nassert P.__annotations__['x'] is int",
    ],
)
def test_programs_run_as_the_modules_that_they_are(program: str) -> None:
    assert run(program, "assert P().x == 1").status == "passed"


def test_too_much_processor_time_is_told_as_such() -> None:
    assert run("while True: pass", seconds=0.1).status == "timeout"


@linux
def test_the_environment_is_empty_and_the_network_is_gone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    ended = run("import os, socket", "assert 'OPENAI_API_KEY' not in os.environ\nassert os.listdir('.') == []")
    assert ended.status == "passed", ended.message
    assert ended.isolation["network"]
    only_lo = "try:\n    names = [n for _, n in socket.if_nameindex()]\nexcept PermissionError:\n    names = ['lo']\n"
    assert run("import socket", only_lo + "assert names == ['lo']").status == "passed"


@linux
def test_files_of_others_are_not_read_where_the_kernel_has_landlock(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    if not run("pass").isolation["files"]:
        pytest.skip("this kernel has no Landlock")
    for program in (f"open({str(secret)!r}).read()", "open('/etc/passwd').read()", f"open({str(secret)!r}, 'w')"):
        assert "PermissionError" in run(program).message
    ended = run("open('own', 'w').write('x')\nassert open('own').read() == 'x'\nimport json, decimal")
    assert ended.status == "passed", ended.message
    assert secret.read_text() == "secret"


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run("open('own', 'w').write('x')")
    assert list(tmp_path.iterdir()) == []
