"""Code execution: does the answer's program pass its tests?

Programs run in a sandbox: in a process and a folder of their own, killed with all that they started.
"""

from __future__ import annotations

import json
import math
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from leadline.evaluators.core import Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import listing
from leadline.evaluators.text.markdown import fences

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

TESTS: Final = "tests"
ENTRY_POINT: Final = "entry_point"
SWITCH: Final = "LEADLINE_ALLOW_CODE_EXECUTION"
"""Variable of the environment that allows a machine to run answers; 1 does."""

PROGRAM: Final = Path(__file__).with_name("_sandboxed_program.py")
STARTUP: Final = 5.0
"""Seconds beyond a program's own that its process may take to start."""

RIGHTS: Final = ("processes", "network", "files", "signals")
"""What is taken away from programs, as far as the machine can."""

MOST_BYTES: Final = 16 * 2**20
MOST_FILES: Final = 1_000
DEEPEST: Final = 64
"""Bytes, files and levels of folders that a program may have at a time."""
MOST_THREADS: Final = 256
MOST_HIDDEN: Final = 16
"""Threads, and files that it removed and keeps in its memory, which may have a megabyte each."""
MOST_UNSEEN: Final = 25
"""Times in a row that a program may move its folders away while they are looked at."""

_LONGEST: Final = 64_000
_PAUSE: Final = 0.02


class CodeParams(Params):
    """Parameters of code_execution."""

    allow: Annotated[
        bool,
        Field(
            description="Run the answers as programs. Off by default; the machines that score must allow it too, by "
            f"the variable {SWITCH}=1."
        ),
    ] = False
    tests_in: Annotated[
        str,
        Field(
            pattern="^(metadata|expected_answer)$",
            description="Where a row's tests stand: metadata (under the key tests) or expected_answer.",
        ),
    ] = "metadata"
    timeout_s: Annotated[float, Field(gt=0, le=300, description="Seconds that an answer and its tests may run.")] = 5.0
    memory_mb: Annotated[int, Field(ge=32, le=16_384, description="Memory that they may take, in megabytes.")] = 512
    leave: Annotated[
        tuple[Literal["processes", "network", "files", "signals"], ...],
        Field(
            description="Rights that they may keep where this machine cannot take them away, as the network on macOS; "
            "without them such a machine runs nothing."
        ),
    ] = ()


@register
class CodeExecution(RowEvaluator):
    """Runs the answer, a program in Python, and its tests: pass@1. Off unless two switches are on.

    **Method.** The program is the answer's first fence of Markdown, or the whole answer. It is run, and behind it in
    the same namespace the row's tests, from the metadata's key ``tests`` or from the expected answer (``tests_in``).
    It passes if nothing raises. Where the metadata has an ``entry_point``, the tests' function ``check`` is called
    with it, as in HumanEval. The metric is the share of answers that pass; with one answer per case that is pass@1.

    **Switches.** ``--param code_execution.allow=true`` asks for it; the machine that scores allows it by
    ``LEADLINE_ALLOW_CODE_EXECUTION=1`` in its environment. Without the first, rows are not applicable; without the
    second, they are unscored.

    **The sandbox.** Each program runs in a process of its own: ``python -I -S`` (the standard library alone), an empty
    environment, an empty folder that is deleted, limits of processor time, wall-clock time, memory, file size (1 MB),
    bytes and files in all (16 MB, 1,000), open files (32), threads (256) and no further processes. On Linux its network
    is taken away by a namespace; files but Python's own and its folder by Landlock; sockets, shared memory, further
    processes, whatever sends others a signal or changes their limits, priority or processors, and the modes and owners
    of files by seccomp; root's powers by their capabilities. The evidence says what was taken. Where the machine
    cannot take one of these rights, rows are unscored unless ``leave`` names it.

    **What it does not protect from.** The process runs on the same kernel: a fault of the kernel is a way out. With
    ``leave=files`` a program reads all that its user can read; with ``leave=signals`` it can end other programs of its
    user. A program can cheat its tests, since it shares a process with them. Run code that you do not trust in a
    container or virtual machine that you can lose.

    **Edge cases.**

    * A row without tests is not applicable. Tests that do not compile leave it unscored.
    * A program that takes too long, too much memory or room, ends its process or forges its ending fails: 0.
    * What a program prints is dropped, and it has no input.

    **Source.** Chen et al., Evaluating Large Language Models Trained on Code (HumanEval, 2021).
    """

    spec = Spec(
        id="code_execution",
        name="Code Execution",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.EXPECTED_ANSWER, RowField.METADATA),
        metrics=(
            Metric.higher("pass_at_1", "Share of answers whose program passes its tests.", name="Pass@1", share=True),
        ),
        version="2",
        keywords=("python", "unit tests", "pass@1", "humaneval", "sandbox", "program"),
        source="Chen et al. 2021, https://arxiv.org/abs/2107.03374",
    )
    parameters = CodeParams
    params: CodeParams

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers: which Python runs the answers."""
        return super().identity(ctx) | {"python": platform.python_version()}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Run the programs of rows, as many at a time as there are processors."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(lambda row: self._guarded(row, ctx), rows))

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Run one program."""
        if not self.params.allow:
            return RowScore.not_applicable(self.row_metrics, "Answers are run only with code_execution.allow=true.")
        if os.environ.get(SWITCH) != "1":
            message = f"This machine does not allow running answers: set {SWITCH}=1 where rows are scored."
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, message)
        tests = (
            row.metadata.get(TESTS) if self.params.tests_in == "metadata" else next(iter(row.expected_answers), None)
        )
        if not isinstance(tests, str) or not tests.strip():
            return RowScore.not_applicable(self.row_metrics, "The row has no tests.")
        entry = row.metadata.get(ENTRY_POINT)
        answer = row.actual_answer or ""
        block = next(iter(fences(answer)), None)
        ending = run_sandboxed(
            block.content if block else answer,
            tests,
            entry if isinstance(entry, str) else "",
            seconds=self.params.timeout_s,
            memory_mb=self.params.memory_mb,
            leave=self.params.leave,
        )
        return self._scored(ending)

    def _scored(self, ending: Ending) -> RowScore:
        if ending.status == "refused":
            message = f"Answers are not run: {ending.message} (code_execution.leave runs them all the same)."
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, message)
        if ending.status == "no_tests":
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The tests are no Python: {ending.message}")
        taken: list[Json] = [name for name, done in ending.isolation.items() if done]
        passed = ending.status == "passed"
        where = {"answer": "The program fails: ", "tests": "A test fails: "}.get(ending.where, "The program fails: ")
        message = "" if passed else f"{where}{ending.message}"
        return RowScore({"pass_at_1": float(passed)}, Evidence(message, data={"isolated_from": taken}))


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a program.

    Attributes:
        status: ``passed``, ``failed``, ``no_tests`` (they are no Python), ``refused``, ``timeout`` or ``killed``.
        where: ``answer`` or ``tests``, where something failed.
        message: What happened.
        isolation: Which of :data:`RIGHTS` the process gave up.
    """

    status: str
    where: str = ""
    message: str = ""
    isolation: dict[str, bool] = field(default_factory=dict)


def run_sandboxed(
    program: str, tests: str, entry_point: str, *, seconds: float, memory_mb: int, leave: Collection[str] = ()
) -> Ending:
    """Run a program and its tests, and return how it ended.

    Args:
        program: Python.
        tests: Python that is run behind it, and fails where the program is wrong.
        entry_point: The name that the tests' function ``check`` is called with, ``""`` where there is none.
        seconds: How long it may take.
        memory_mb: Memory that it may take.
        leave: Which of :data:`RIGHTS` it may keep where this machine cannot take them.
    """
    token = secrets.token_hex(16)
    asked = {
        "program": program,
        "tests": tests,
        "entry_point": entry_point,
        "cpu_s": math.ceil(seconds) + 1,
        "memory_mb": memory_mb,
        "leave": list(leave),
        "token": token,
    }
    with _folder() as folder, TemporaryFile() as given, TemporaryFile() as output, _pipe() as (said_first, first):
        given.write(json.dumps(asked).encode())
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-B", str(PROGRAM), str(first)],
            stdin=given,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            pass_fds=(first,),
            start_new_session=True,
        )
        os.close(first)
        try:
            stopped = _wait(process, folder, seconds + STARTUP)
        finally:
            _kill(process)
        output.seek(0)
        return _ending(os.read(said_first, _LONGEST), output.read(_LONGEST), token, stopped, process.returncode)


def _wait(process: subprocess.Popen[bytes], folder: str, seconds: float) -> Ending | None:
    """Wait for a process; return how it must be ended, ``None`` if it ended by itself."""
    deadline = time.monotonic() + seconds
    unseen = 0
    while time.monotonic() < deadline:
        try:
            process.wait(timeout=_PAUSE)
        except subprocess.TimeoutExpired:
            held = _holds_too_much(folder)
            unseen = unseen + 1 if held is None else 0
            if held or unseen > MOST_UNSEEN or _hides_too_much(process):
                message = f"it took more than {MOST_BYTES >> 20} MB, {MOST_FILES:,} files or {MOST_THREADS} threads"
                return Ending("killed", message=message)
        else:
            return None
    return Ending("timeout", message=f"it took more than {seconds - STARTUP:g} s")


def _ending(before: bytes, after: bytes, token: str, stopped: Ending | None, code: int | None) -> Ending:
    try:
        first: Any = json.loads(before)
    except ValueError:
        return stopped or Ending("killed", message=f"its process ended before it began (code {code})")
    isolation = first["isolation"]
    if first["left"]:
        return Ending("refused", message=f"{listing(first['left'])} cannot be taken away on this machine")
    if first["fault"]:
        return Ending("no_tests", message=first["fault"])
    if stopped is not None:
        return replace(stopped, isolation=isolation)
    try:
        last: Any = json.loads(after)
        status, where, message, known = last["status"], last["where"], last["message"], last["token"] == token
        if known and status in ("passed", "failed") and where in ("", "answer", "tests") and isinstance(message, str):
            return Ending(status, where, message, isolation)
    except (ValueError, TypeError, KeyError, RecursionError):
        code = code or 0
    if code == -signal.SIGXCPU:
        return Ending("timeout", message="it took too much processor time", isolation=isolation)
    return Ending("killed", message=f"its process ended without a result (code {code})", isolation=isolation)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group, which its children are in unless they left it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and all of its group
        process.poll()
    process.wait()


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Make a pipe; its end to write is closed by whoever hands it on."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    try:
        yield out, into
    finally:
        os.close(out)


@contextmanager
def _folder() -> Iterator[str]:
    """Make a folder, and remove it with all that a program may have left in there."""
    folder = tempfile.mkdtemp(prefix="leadline-code-")
    try:
        yield folder
    finally:
        _remove(Path(folder))


def _holds_too_much(folder: str) -> bool | None:
    """Return whether a folder holds too many bytes, files or levels; ``None`` if some of it went away meanwhile."""
    left, size, files, seen = [(folder, 0)], 0, 0, True
    while left:
        path, depth = left.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        left.append((entry.path, depth + 1))
                    else:
                        size += _size(entry)
                    if size > MOST_BYTES or files > MOST_FILES or depth > DEEPEST:
                        return True
        except FileNotFoundError:
            seen = False
        except OSError:
            return True
    return False if seen else None


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _hides_too_much(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has too many threads or removed files in its memory, or does not show them."""
    threads = Path(f"/proc/{process.pid}/task")
    try:
        for thread in sorted(threads.iterdir()):
            if maps := thread.joinpath("maps").read_bytes():  # a first thread that ended has none
                return threads.stat().st_nlink - 2 > MOST_THREADS or maps.count(b"(deleted)\n") > MOST_HIDDEN
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or this is no Linux
        return False
    except OSError:
        return True
    return False


def _remove(folder: Path) -> None:
    """Remove a folder however deep it is: folders of folders are moved up to it, and none is entered twice."""
    number = 0
    while entries := list(folder.iterdir()):
        for entry in entries:
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            entry.chmod(0o700)
            for inner in list(entry.iterdir()):
                if inner.is_dir() and not inner.is_symlink():
                    inner.chmod(0o700)
                    inner.rename(folder / f"{number}-{secrets.token_hex(8)}")
                    number += 1
                else:
                    inner.unlink()
            entry.rmdir()
    folder.rmdir()
