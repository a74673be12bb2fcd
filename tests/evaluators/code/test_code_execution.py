"""Programs pass or fail their tests, and those that mean harm do none."""

import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from leadline.evaluators.code._sandboxed_program import _MACHINES, _REFUSED
from leadline.evaluators.code.code_execution import RIGHTS, SWITCH, CodeExecution, run_sandboxed
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Reason, Row, Unscored

LINUX = sys.platform.startswith("linux")
linux = pytest.mark.skipif(not LINUX, reason="rights are taken away on Linux")
GOOD = "def add(a, b):\n    return a + b\n"


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(SWITCH, "1")


def score(answer, tests="assert add(1, 2) == 3", entry=None, expected=(), **params):
    metadata = {"tests": tests} | ({"entry_point": entry} if entry else {})
    row = Row("c", "m", actual_answer=answer, expected_answers=expected, metadata=metadata)
    params = {"allow": True, "leave": () if LINUX else RIGHTS} | params
    [result] = CodeExecution(CodeExecution.parameters(**params)).score([row], EvalContext())
    return result


def value(*args, **params):
    return score(*args, **params).values["pass_at_1"]


def run(program, tests="pass", seconds=5.0, memory_mb=256):
    return run_sandboxed(program, tests, "", seconds=seconds, memory_mb=memory_mb)


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


@linux
@pytest.mark.parametrize(
    "program",
    [
        "import fcntl; fcntl.fcntl(r, 8, VICTIM)",
        "import fcntl; fcntl.fcntl(r, 10, 9)",
        "import fcntl, struct; fcntl.fcntl(r, 15, struct.pack('ii', 1, VICTIM))",
        "import fcntl; fcntl.ioctl(r, 0x8901, struct.pack('i', VICTIM))",
        "import fcntl, socket; a, b = socket.socketpair(); fcntl.ioctl(a, 0x8902, struct.pack('i', VICTIM))",
        "import resource; resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (3, 3))",
        "import resource; resource.prlimit(VICTIM, resource.RLIMIT_CPU, (1, 1))",
        "os.sched_setaffinity(VICTIM, {0})",
        "os.setpriority(os.PRIO_PROCESS, VICTIM, 19)",
        "os.setpriority(os.PRIO_USER, 0, 19)",
        "os.sched_setscheduler(VICTIM, os.SCHED_IDLE, os.sched_param(0))",
        "import fcntl; open('f', 'w').close(); fcntl.fcntl(os.open('f', os.O_RDONLY), 1024, fcntl.F_RDLCK)",
        "import mmap; mmap.mmap(-1, 4096)",
        "os.mknod('disk', 0o60600, os.makedev(8, 0))",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)",
        "import ctypes; check(ctypes.CDLL(None).clone(OWN, STACK + 65000, 0x10900, None))",
        "os.kill(-1, 9)",
        "os.killpg(VICTIM, 9)",
        "os.chmod(FILE, 0)",
        "os.chown(FILE, 1, 1)",
        "os.utime(FILE, (0, 0))",
        "os.setxattr(FILE, 'user.x', b'')",
        "open(f'/proc/{VICTIM}/mem', 'r+b')",
        "open(f'/proc/{VICTIM}/oom_score_adj', 'w')",
        "os.rename(FILE, 'mine')",
        "os.link(FILE, 'mine')",
        "os.truncate(FILE, 0)",
        "import ctypes; check(ctypes.CDLL(None, use_errno=True).shmget(1, 4096, 0o1666))",
    ],
)
def test_no_other_process_and_no_other_file_is_touched(program: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    kept.chmod(0o666)
    victim = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        had = os.sched_getaffinity(victim.pid), os.getpriority(os.PRIO_PROCESS, victim.pid)
        given = (
            f"import os, struct, ctypes\nVICTIM, FILE = {victim.pid}, {str(kept)!r}\nr, w = os.pipe()\n"
            "OWN = ctypes.CFUNCTYPE(int)(int)\nSTACK = ctypes.addressof(ctypes.create_string_buffer(1 << 16))\n"
            "def check(result):\n    if result < 0: raise OSError\n"
        )
        ended = run(f"{given}{program}")
        assert (ended.status, victim.poll()) == ("failed", None), ended
        assert (os.sched_getaffinity(victim.pid), os.getpriority(os.PRIO_PROCESS, victim.pid)) == had
        assert resource.prlimit(victim.pid, resource.RLIMIT_NOFILE) == resource.getrlimit(resource.RLIMIT_NOFILE)
        assert (kept.read_text(), kept.stat().st_mode & 0o777, kept.stat().st_mtime > 1) == ("kept", 0o666, True)
    finally:
        victim.kill()
        victim.wait()


@linux
def test_every_call_that_is_refused_is_refused_by_the_kernel() -> None:
    if platform.machine() not in _MACHINES or not run("pass").isolation["signals"]:
        pytest.skip("this kernel has no seccomp, or this kind of processor is not known")
    column = _MACHINES[platform.machine()][1]
    calls = {name: numbers[column] for name, numbers in _REFUSED.items() if numbers[column] is not None}
    program = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nopen_calls = []\n"
        f"for name, number in {calls}.items():\n"
        "    ctypes.set_errno(0)\n"
        "    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1: open_calls.append(name)\n"
    )
    ended = run(program, "assert open_calls == [], open_calls")
    assert ended.status == "passed", ended.message


@linux
@pytest.mark.parametrize(
    "program",
    [
        "for n in range(200):\n    with open(str(n), 'wb') as f: f.write(b'x' * 10**6)\nwhile True: pass",
        "for n in range(50_000): open(str(n), 'w').close()",
        "import os\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')\nwhile True: pass",
        "import os\nos.mkdir('d'); open('d/x', 'w').close(); os.mkdir('e', 0)\nwhile True: pass",
    ],
)
def test_a_disk_is_not_filled_and_no_folder_stays_behind(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(program, seconds=3.0).status in ("failed", "killed", "timeout")
    assert list(tmp_path.iterdir()) == []


HIDE = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
def hide(opened):
    for _ in range(2_000):
        place = opened()
        os.write(place, bytes(1_000_000))
        libc.mmap(None, 4096, 1, 2, place, 0)
        os.close(place)
def removed():
    place = os.open("x", os.O_CREAT | os.O_RDWR)
    os.unlink("x")
    return place
"""
MOVE = """
os.mkdir("0")
folder = os.open("0", os.O_RDONLY)
def move():
    for n in range(10**9):
        os.rename(f"{n}", f"{n + 1}")
threading.Thread(target=move, daemon=True).start()
for n in range(20_000):
    with open(os.open(f"{n}", os.O_CREAT | os.O_WRONLY, dir_fd=folder), "w") as file: file.write("x")
"""


@linux
@pytest.mark.parametrize(
    "program",
    [
        "hide(removed)",
        "hide(lambda: libc.memfd_create(b'x', 0))",
        "hide(lambda: os.open('.', os.O_TMPFILE | os.O_RDWR))",
        "libc.prctl(4, 0)\nhide(removed)",
        "threading.Thread(target=hide, args=(removed,)).start()\nlibc.syscall(60, 0)",
        "threading.stack_size(32768)\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        MOVE,
    ],
)
def test_what_a_program_hides_is_counted_too(program: str) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of its calls are those of x86_64")
    assert "took more than 16 MB" in run(f"{HIDE}{program}\nos._exit(0)").message


@linux
def test_threads_and_folders_that_come_and_go_are_no_harm() -> None:
    assert (
        run(
            "import tempfile, threading, time\nthreading.stack_size(1 << 18)\n"
            "threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(100)]\n"
            "for thread in threads: thread.start()\n"
            "for _ in range(300):\n    with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').close()\n"
        ).status
        == "passed"
    )


@pytest.mark.parametrize(
    "said",
    [
        '{"status": "passed", "where": "", "message": "", "isolation": 5, "token": 5}',
        '{"status": "refused", "where": "", "message": "x", "token": TOKEN}',
        '{"status": "no_tests", "where": "tests", "message": "x", "token": TOKEN}',
        '{"status": "failed", "where": 5, "message": [], "token": TOKEN}',
        '{"left": ["network"], "fault": "x", "isolation": {}}',
        "[]",
        "[" * 20_000,
    ],
)
def test_an_ending_that_is_forged_is_a_failure(said: str) -> None:
    forged = (
        "import os, sys, json\nasked = sys._getframe(2).f_locals\n"
        f"text = {said!r}.replace('TOKEN', json.dumps(asked['asked']['token']))\n"
        "for place in range(3, 32):\n    try: os.write(place, text.encode())\n    except OSError: pass\n"
        "os._exit(0)"
    )
    assert value(forged) == 0.0


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
