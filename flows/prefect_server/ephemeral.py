"""A Prefect server for one run: it ends with the process that started it, after writing the whole history.

Prefect's own ephemeral server drops the task runs that its recorder has not written when the process ends: of 1,000
quick ones some 50 reach the database. This server stops when its standard input ends, which also happens when its
parent is killed, and first writes what it has received.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self, TextIO, cast

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError
from leadline.flows.prefect_server.drain import PendingWrites
from leadline.flows.prefect_server.logs import new_log, tail
from leadline.flows.prefect_server.server_settings import BATCHED_WRITES, NO_TELEMETRY, START_LOCK, START_TIMEOUT_S
from leadline.tasks.store.locks import locked

if TYPE_CHECKING:
    import uvicorn

DRAIN_TIMEOUT_S: Final = 15.0
READY: Final = "ready "


class TemporaryServer:
    """A Prefect API on the loopback interface, as a child of this process, with the user's own database.

    The child starts on construction; :meth:`wait` waits until it answers and :meth:`stop` ends it.

    Args:
        environment: Environment of the child, Prefect's settings included.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._log = new_log("prefect")
        self._url = ""
        self._failed = False
        defaults = BATCHED_WRITES | NO_TELEMETRY
        with self._log.open("wb") as log:
            # -P: files such as secrets.py in the working directory shadow no library. A session of its own: Ctrl-C is
            # for the run, and the server must outlive it to write its history.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", "leadline.flows.prefect_server.ephemeral", str(self._log)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=defaults | environment,
                start_new_session=True,
            )
        self._stdin, self._stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, timeout: float = START_TIMEOUT_S) -> str:
        """Wait until the server answers and return the URL of its API.

        Raises:
            LeadlineError: It ended or did not answer in time.
        """
        if self._url:
            return self._url
        readable, _, _ = select.select([self._stdout], [], [], timeout)
        line = self._stdout.readline().decode() if readable else ""
        if not line.startswith(READY):
            why = tail(self._log) or ("it ended" if readable else f"no answer in {timeout:.0f} s")
            self._failed = True
            self._process.kill()
            self._process.wait()
            raise LeadlineError(
                f"Prefect's server did not start: {why}", hint=f"Its log: {self._log}", code=ErrorCode.SERVER_START
            )
        self._url = line.removeprefix(READY).strip()
        return self._url

    def stop(self) -> bool:
        """Let the server write what it has received, end it, and return whether it finished in time."""
        self._stdin.close()
        if not self._url:  # nothing ran on it
            self._process.kill()
        try:
            self._process.wait(timeout=DRAIN_TIMEOUT_S + 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        if not self._url and not self._failed:
            self._log.unlink(missing_ok=True)
        return self._process.returncode == 0


def main() -> None:
    """Serve Prefect's API on a free port of the loopback interface until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed belongs into the log
    os.environ |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    if not asyncio.run(_serve(answers)):
        sys.exit(1)
    Path(sys.argv[1]).unlink(missing_ok=True)  # nothing failed; the parent may be gone


async def _serve(answers: TextIO) -> bool:
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(), log_level="error", lifespan="on", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    orphaned, complete = _end_of_input(), False
    with locked(PREFECT_HOME.value() / START_LOCK):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
    if server.started:
        pending = PendingWrites()
        print(f"{READY}http://127.0.0.1:{listener.getsockname()[1]}/api", file=answers, flush=True)
        await asyncio.wait({asyncio.create_task(orphaned.wait()), serving}, return_when=asyncio.FIRST_COMPLETED)
        complete = await _drain(server, pending)
    server.should_exit = True
    await serving
    return complete


def _end_of_input() -> asyncio.Event:
    """Return an event that is set when the parent closes our standard input or dies."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()
    return ended


async def _drain(server: uvicorn.Server, pending: PendingWrites) -> bool:
    """Wait until every request has ended and all that was received is in the database; False when time runs out."""
    deadline, quiet = time.monotonic() + DRAIN_TIMEOUT_S, 0
    while quiet < 2:  # an event may still be on its way from its socket
        if time.monotonic() > deadline:
            return False
        quiet = 0 if server.server_state.tasks or await pending.missing() else quiet + 1
        await asyncio.sleep(0.05)
    return True


if __name__ == "__main__":
    main()
