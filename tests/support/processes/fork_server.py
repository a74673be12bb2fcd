"""Python programs of the tests, forked from a process that has imported what most of them need.

A command imports Prefect and DuckDB for two to four seconds of processor time, and the tests start hundreds. After
``use_forks()``, ``subprocess`` forks ``python -m …`` and ``python -c …`` of Leadline, Prefect and the tests from a
server of the process that asks, where nothing tells the fork from a start: it is the asking process's own child, with
its arguments, variables, folder, streams, signals and exit code. What a fork starts itself is forked too, from a server
of its own. Not forked is what looks at how it was started: other options of Python, terminals, file descriptors, what
is imported (``sys.modules``) or how much memory that takes. ``LEADLINE_TESTS_FORK=0`` starts everything.

The fork server of ``multiprocessing`` does not serve: its forks are children of its own, and have no streams.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import inspect
import json
import logging
import os
import runpy
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, TextIO

ROOT: Final = Path(__file__).parents[3]
SWITCH: Final = "LEADLINE_TESTS_FORK"
IMPORTED: Final = (
    "leadline.cli.main", "leadline.flows.evaluate.job", "duckdb", "pandas", "pyarrow",
    "scipy.cluster.hierarchy", "scipy.stats", "sqlalchemy.ext.asyncio", "aiosqlite", "alembic", "fastapi", "uvicorn",
)  # fmt: skip
READ_SETTINGS: Final = (
    ("leadline.plugins.ops.notify.watching",)
    if (Path(__file__).parents[3] / "plugins").is_dir()
    else ("prefect.client.orchestration",)
)
"""Modules that have Prefect's client, which reads its settings when it is imported; a checkout may lack plug-ins."""
SET_UP_LOGGING: Final = (
    "leadline.flows.served", "prefect.cli", "prefect.flow_engine",
    "prefect.task_engine", "prefect.workers.process", "prefect.server.models.flow_runs",
)  # fmt: skip
"""Modules that have Prefect's flows, which set up its logging when they are imported."""
PREFIXES: Final = ("leadline.", "prefect", "tests.support.", "uvicorn")
LOOKS_AT_ITSELF: Final = ("sys.modules", "resource", "tracemalloc", "importtime", "/proc/")
MAKES_PYTHON: Final = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")
"""Beginnings of variables that Python or its libraries read when they start."""
PR_SET_CHILD_SUBREAPER: Final = 36
_LENGTH: Final = struct.Struct("!I")


@dataclass(frozen=True)
class Start:
    """What the process that asks wants to be started."""

    program: tuple[str, ...]
    """``-m MODULE ARGUMENT…`` or ``-c CODE ARGUMENT…``."""
    safe_path: bool
    variables: Mapping[str, str]
    folder: str
    session: bool
    group: int
    umask: int


def program_of(args: Sequence[str]) -> tuple[tuple[str, ...], bool] | None:
    """Return what of a command line can be forked and whether it has ``-P``, or nothing for what has to be started."""
    if Path(args[0]).parent == Path(sys.executable).parent and Path(args[0]).name in ("leadline", "prefect"):
        module = {"leadline": "leadline.cli.main", "prefect": "prefect"}[Path(args[0]).name]
        return ("-m", module, *args[1:]), True
    if args[0] != sys.executable:
        return None
    rest = [*args[1:]]
    safe = rest[:1] == ["-P"]
    kind, name = rest[safe : safe + 2] if len(rest) > safe + 1 else ("", "")
    ours = kind == "-m" and name.startswith(PREFIXES)
    ours |= kind == "-c" and "leadline" in name and not any(word in name for word in LOOKS_AT_ITSELF)
    return (tuple(rest[safe:]), safe) if ours else None


class ForkedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """Starts a program, by forking a process that has imported what it needs where that makes no difference."""

    def _execute_child(self, *given: Any) -> None:
        asked = _PARAMETERS.bind(self, *given).arguments
        start = _start_of(asked)
        pid = None if start is None else _forked(start, _streams(asked))
        if pid is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in PIPES))  # type: ignore[attr-defined]


_PARAMETERS: Final = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
LEFT_ALONE: Final = {
    "executable": None, "preexec_fn": None, "pass_fds": (), "creationflags": 0, "shell": False, "gid": None,
    "gids": None, "uid": None,
}  # fmt: skip
"""Options that a fork does not have, as they are where nobody asks for them."""


def _start_of(asked: Mapping[str, Any]) -> Start | None:
    """Return what to fork, or nothing for what has to be started."""
    args, env, folder, group = (asked[name] for name in ("args", "env", "cwd", "process_group"))
    if isinstance(args, str | bytes | os.PathLike) or any(asked[name] != value for name, value in LEFT_ALONE.items()):
        return None
    forked = program_of([os.fsdecode(each) for each in args])
    variables = {os.fsdecode(k): os.fsdecode(v) for k, v in (os.environ if env is None else env).items()}
    where = Path.cwd() if folder is None else Path(os.fsdecode(folder))
    if forked is None or not where.is_dir() or variables.get(SWITCH) == "0" or any(map(os.isatty, _streams(asked))):
        return None
    if _of_python(variables) != _of_python(os.environ):
        return None
    return Start(*forked, variables, str(where), asked["start_new_session"], group, _umask(asked["umask"]))


def _umask(asked: int) -> int:
    """Return the umask that is asked for, or this process's own, which the fork server need not have."""
    if asked >= 0:
        return asked
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def _streams(asked: Mapping[str, Any]) -> list[int]:
    pipes = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    return [own if pipe == -1 else pipe for own, pipe in enumerate(pipes)]


def _of_python(variables: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in variables.items() if k.startswith(MAKES_PYTHON) and k != "PYTHONPATH"}


class ForkServer:
    """A process that forks programs for the one that holds this, and ends with it.

    Args:
        channel: The socket that it listens on at the other end.
    """

    def __init__(self, channel: socket.socket) -> None:
        self.owner = os.getpid()
        self._channel = channel
        self._lock = threading.Lock()

    def start(self, start: Start, streams: Sequence[int]) -> int | None:
        """Return the process of a program, which is a child of this one; nothing if the server is gone.

        Args:
            start: What to start.
            streams: Its standard input, output and error.
        """
        message = json.dumps(asdict(start)).encode("utf-8", "surrogateescape")
        with self._lock:
            _adopt_orphans(True)
            try:
                socket.send_fds(self._channel, [_LENGTH.pack(len(message))], [*streams])
                self._channel.sendall(message)
                return int(_LENGTH.unpack(_received(self._channel, _LENGTH.size))[0])
            except (OSError, EOFError):
                return None
            finally:
                _adopt_orphans(False)

    def close(self) -> None:
        """Let the process end."""
        self._channel.close()


_server: ForkServer | None = None
_user = 0
"""The process that starts a server when it needs one."""
_more: list[str] = []


def _forked(start: Start, streams: Sequence[int]) -> int | None:
    """Return the process of a program that was forked; nothing in a process that has no server."""
    global _server
    me = os.getpid()
    if _server and _server.owner == me and (pid := _server.start(start, streams)):
        return pid
    if _user != me:
        return None
    _server, process = _new_server()  # the first, or a test has killed the one before
    if pid := _server.start(start, streams):
        return pid
    raise RuntimeError(f"The fork server ends with {process.wait()}: {shlex.join(process.args)}")


def _new_server() -> tuple[ForkServer, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), *_more], pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    return ForkServer(ours), process


def use_forks() -> None:
    """Have ``subprocess`` fork what it can, from now on and in what it forks."""
    global _user
    if sys.platform == "linux" and os.environ.get(SWITCH) != "0":
        _user = os.getpid()
        subprocess.Popen = ForkedPopen  # type: ignore[misc]


def import_also(*modules: str) -> None:
    """Have the forks from now on import more, where all tests of a file need it."""
    if not {*modules} <= {*_more}:
        _more.extend(modules)
        if _server:
            _server.close()


def _adopt_orphans(on: bool) -> None:
    """A fork whose parent ends becomes the child of its nearest ancestor that has said so."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _received(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := channel.recv(size - len(data))):
            raise EOFError
        data += more
    return data


def _next_program(channel: socket.socket) -> tuple[Start, list[int]]:
    """Fork what is asked for, until the asking process ends; return in the forks alone."""
    _handle_signals(signal.SIG_IGN, signal.SIG_IGN)
    while True:
        head, streams, _, _ = socket.recv_fds(channel, _LENGTH.size, 3)
        if len(head) < _LENGTH.size:
            os._exit(0)
        message = _received(channel, _LENGTH.unpack(head)[0])
        reading, writing = os.pipe()
        middle = os.fork()
        if not middle:
            middle = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == middle:
                os.sched_yield()
            start = Start(**json.loads(message.decode("utf-8", "surrogateescape")))
            _handle_signals(signal.default_int_handler, signal.SIG_DFL)
            if start.session:
                os.setsid()
            if start.group >= 0:
                os.setpgid(0, start.group)
            os.write(writing, _LENGTH.pack(os.getpid()))
            for each in (channel.detach(), reading, writing):
                os.close(each)
            return start, streams
        os.close(writing)
        os.waitpid(middle, 0)  # with its end, the asking process is the parent
        if not (pid := os.read(reading, _LENGTH.size)):
            os._exit(1)  # the fork has failed; who asks is told so by the end of this
        channel.sendall(pid)
        for each in (reading, *streams):
            os.close(each)


def _handle_signals(interrupt: Any, end: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


class Later(MetaPathFinder, Loader):
    """Takes back modules that were imported, and gives all of them when one of them is imported again.

    Args:
        names: What to import for them.
        import_again: Does what an import has done besides.
        first: What is given with them.
    """

    def __init__(self, names: Sequence[str], import_again: Callable[[], object], first: Later | None = None) -> None:
        before = set(sys.modules)
        for name in names:
            import_module(name)
        self._modules = _that_hold_settings({name: sys.modules[name] for name in sys.modules.keys() - before})
        self._import_again, self._first = import_again, first

    def take_back(self) -> None:
        """Take the modules back."""
        for name in self._modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return that this gives a module, or nothing."""
        if (module := self._modules.get(name)) is None:
            return None
        spec = ModuleSpec(name, self, origin=module.__file__, loader_state=module.__spec__)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    def get_code(self, name: str) -> CodeType | None:
        """Return the code of a module that is to be run."""
        spec = self._modules[name].__spec__
        return spec.loader.get_code(name) if spec and isinstance(spec.loader, InspectLoader) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module as it is."""
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Give all of them."""
        if module.__spec__:
            module.__spec__ = module.__spec__.loader_state
        self._give()

    def _give(self) -> None:
        if self in sys.meta_path:
            if self._first:
                self._first._give()
            sys.meta_path.remove(self)
            sys.modules.update(self._modules)
            self._import_again()


def _read_settings() -> None:
    import_module("prefect.context").refresh_global_settings_context()


def _set_up_logging() -> None:
    import_module("prefect.logging.configuration").setup_logging(incremental=False)


def _that_hold_settings(modules: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """Return Prefect's modules, and those of Leadline that have something of them."""
    found = {name: module for name, module in modules.items() if name.partition(".")[0] == "prefect"}
    while True:
        more = {
            name: module
            for name, module in modules.items()
            if name not in found and name.startswith("leadline.")
            and any(str(getattr(value, "__module__", "")) in found for value in vars(module).values())
        }  # fmt: skip
        if not more:
            return found
        found |= more


def _forget_logging() -> None:
    """Take back what Prefect has set up: a program sets up its own before, or gets Prefect's with Prefect."""
    for logger in (logging.getLogger(), *logging.Logger.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers = [each for each in logger.handlers if isinstance(each, logging.NullHandler)]
            logger.setLevel(logging.WARNING if logger is logging.getLogger() else logging.NOTSET)
            logger.propagate = True


def main() -> None:
    """Import what programs need, wait for what is asked, and be the program in each fork."""
    global _server
    sys.path.remove(str(ROOT))  # from PYTHONPATH, before Python's own
    packages = next((n for n, place in enumerate(sys.path) if place.endswith("-packages")), len(sys.path))
    sys.path.insert(packages, str(ROOT))  # before the checkout that is installed, where this is another one
    gc.disable()  # while modules are imported, next to nothing is garbage
    for name in (*IMPORTED, *sys.argv[2:]):
        import_module(name)
    client = Later(READ_SETTINGS, _read_settings)
    flows = Later(SET_UP_LOGGING, _set_up_logging, client)
    for later in (flows, client):
        later.take_back()
    _forget_logging()
    gc.collect()
    gc.freeze()
    gc.enable()
    channel = socket.socket(fileno=int(sys.argv[1]))
    while True:
        start, streams = _next_program(channel)
        channel, theirs = socket.socketpair()
        if os.fork():
            theirs.close()
            break
        channel.close()
        for stream in streams:
            os.close(stream)
        channel = theirs
    _server = ForkServer(channel)
    _prepare(start, streams)
    _end(_run(start.program))


def _stream(number: int, mode: str, like: TextIO) -> TextIO:
    stream = open(number, mode, encoding=like.encoding, errors=like.errors, closefd=False)  # noqa: SIM115 - to the end
    if mode == "w" and os.environ.get("PYTHONUNBUFFERED"):
        stream.reconfigure(write_through=True)
    return stream


def _prepare(start: Start, streams: Sequence[int]) -> None:
    for stream, number in zip(streams, range(3), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(start.variables)
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(start.folder)
    os.umask(start.umask)
    sys.argv = [start.program[0], *start.program[2:]]
    places = [str(Path(place).absolute()) for place in start.variables.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:0] = ([] if start.safe_path else [start.folder if start.program[0] == "-m" else ""]) + places
    subprocess.Popen = ForkedPopen  # type: ignore[misc]


def _run(program: Sequence[str]) -> BaseException | None:
    """Run a program as Python does, and return what it was left with."""
    kind, what = program[:2]
    module = sys.modules["__main__"] = ModuleType("__main__")
    try:
        if kind == "-m":
            if not hasattr(sys.modules.get(what), "__path__"):
                sys.modules.pop(what, None)  # it is run, and what imports it has another copy of it
            runpy._run_module_as_main(what)  # type: ignore[attr-defined]
        else:
            exec(compile(what, "<string>", "exec"), vars(module))
    except BaseException as error:
        return error
    return None


def _end(error: BaseException | None) -> None:
    """End the process as Python does, without taking its thousands of modules apart."""
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    from tests.support.processes import fork_server

    fork_server.main()
