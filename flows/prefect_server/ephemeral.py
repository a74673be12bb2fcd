"""A Prefect server for one run: it lives as long as the process that started it, and loses nothing of its history.

Prefect can start an ephemeral server by itself, but when the process ends that one drops the task runs which its
recorder has not written yet: of 1,000 quick ones some 50 reach the database. This one is told to stop by the end of
its standard input, which also happens when its parent is killed. Then it first writes down what it has received.
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
from leadline.flows.prefect_server.state import locked, new_log, tail

if TYPE_CHECKING:
    import uvicorn

START_TIMEOUT_S: Final = 90.0
"""Prefect's own limit is 20 s, which a first start with its migrations reaches on a slow machine."""

DRAIN_TIMEOUT_S: Final = 15.0
READY: Final = "ready "
START_LOCK: Final = "leadline-start.lock"
"""Held in ``PREFECT_HOME`` while a server starts: two that make the same database at once break each other."""

RECORDER: Final = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
}
"""Settings with which the server writes task runs and events in batches: hundreds a second instead of some 30."""

PRIVATE: Final = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
"""Settings that keep Prefect from calling home."""


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
        defaults = RECORDER | PRIVATE
        with self._log.open("wb") as log:
            # -P: not the flows of the working directory. Its own session: Ctrl-C is for the run, and the server must
            # outlive it to write its history.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", "leadline.flows.prefect_server.ephemeral", str(self._log)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=defaults | environment,
                start_new_session=True,
            )
        self._lifeline, self._answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)

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
        readable, _, _ = select.select([self._answers], [], [], timeout)
        line = self._answers.readline().decode() if readable else ""
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
        """Let the server write down what it has received, end it, and return whether it did so in time."""
        self._lifeline.close()
        if not self._url:  # nothing ran on it
            self._process.kill()
        try:
            self._process.wait(timeout=DRAIN_TIMEOUT_S + 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
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
    Path(sys.argv[1]).unlink(missing_ok=True)  # a log of nothing but success; the parent may be gone


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
        witness = PendingWrites()
        print(f"{READY}http://127.0.0.1:{listener.getsockname()[1]}/api", file=answers, flush=True)
        await asyncio.wait({asyncio.create_task(orphaned.wait()), serving}, return_when=asyncio.FIRST_COMPLETED)
        complete = await _settle(server, witness)
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


async def _settle(server: uvicorn.Server, witness: PendingWrites) -> bool:
    """Wait until every request has ended and all that was received is in the database; False when time runs out."""
    deadline, quiet = time.monotonic() + DRAIN_TIMEOUT_S, 0
    while quiet < 2:  # an event may be on its way from its socket to the witness
        if time.monotonic() > deadline:
            return False
        quiet = 0 if server.server_state.tasks or await witness.missing() else quiet + 1
        await asyncio.sleep(0.05)
    return True


if __name__ == "__main__":
    main()
