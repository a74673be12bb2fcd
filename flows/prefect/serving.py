"""The process of a Prefect server that Leadline starts: it makes the database, answers, and writes all that it got.

Prefect's own ephemeral server drops the task runs that its recorder has not written when the process ends: of 1,000
quick ones some 50 reach the database. This one first writes what it has received. It ends when it is told to, when the
process that it serves is gone (a temporary server), or when nobody has used it for a while (a kept one).
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.ground.log_masking import mask_logs
from leadline.flows.prefect import flock
from leadline.flows.prefect.server_settings import (
    BATCHED_WRITES,
    DRAIN_TIMEOUT_S,
    NO_TELEMETRY,
    READY,
    RETENTION,
    RUNS_ONLY,
    START_LOCK,
    ServerOptions,
)

if TYPE_CHECKING:
    import uvicorn

    from leadline.flows.prefect.drain import PendingWrites

UNUSED_S: Final = 60.0
"""A server that nothing was asked of but whether it answers ends sooner: the command that started it was refused."""

Scope: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Activity:
    """Counts requests in work and notes the last one; a client's open socket is a request in work.

    Args:
        app: The application that answers.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._open = 0
        self._last = time.monotonic()
        self._used = False

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Answer a request.

        Args:
            scope: The request.
            receive: Receives its body.
            send: Sends the answer.
        """
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        self._used = self._used or not str(scope.get("path", "")).endswith("/health")
        self._open += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = time.monotonic()

    def idle(self, limit: float) -> bool:
        """Return whether nothing has been asked for so many seconds."""
        limit = limit if self._used else min(limit, UNUSED_S)
        return not self._open and time.monotonic() - self._last > limit


def main() -> None:
    """Serve Prefect's API on the loopback interface until it is to end."""
    options = ServerOptions(**json.loads(sys.argv[1]))
    mask_logs()
    parent = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed belongs into the log
    listener = _listen(options)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    os.environ |= BATCHED_WRITES | NO_TELEMETRY | RETENTION | dict(os.environ) | {"PREFECT_API_URL": f"{url}/api"}
    if options.services == "runs":
        os.environ |= RUNS_ONLY | dict(os.environ)
    if options.record is None:
        os.environ |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
    gc.disable()  # all that is imported and built to start stays
    complete = asyncio.run(_serve(options, listener, url, parent))
    if complete and options.record is None:
        Path(options.log).unlink(missing_ok=True)  # nothing failed; the parent may be gone
    logging.shutdown()
    os._exit(0 if complete else 1)  # taking some thousand modules apart would take a second


def _listen(options: ServerOptions) -> socket.socket:
    for port in (options.port, 0) if options.or_any_port else (options.port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()  # two servers that start at once can both bind a port: only one can listen
            return listener
        except OSError:
            listener.close()
    sys.exit(f"Port {options.port} is taken.")


async def _serve(options: ServerOptions, listener: socket.socket, url: str, parent: IO[str]) -> bool:
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    from leadline.flows.prefect.database import prepare_database
    from leadline.flows.prefect.drain import PendingWrites
    from leadline.tasks.ground.locks import locked

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals alone: history is written before the server ends."""
            yield

    activity = Activity(create_app())
    server = Server(uvicorn.Config(activity, log_level="error", lifespan="on", timeout_graceful_shutdown=5))
    over, complete = _told_to_end(options), False
    with locked(PREFECT_HOME.value() / START_LOCK):
        prepare_database()
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
    if server.started:
        gc.freeze()
        gc.enable()
        pending = PendingWrites()
        if options.record is None:
            print(f"{READY}{url}/api", file=parent, flush=True)
        else:
            _write_record(options, url)
        with _Users(options.users) as users:
            await _until_over(options, over, serving, activity, pending, users)
            if options.record is not None:
                Path(options.record).unlink(missing_ok=True)
            complete = await _drain(server, pending)
            server.should_exit = True
            await serving
    else:
        await serving
    return complete


def _told_to_end(options: ServerOptions) -> asyncio.Event:
    """Return an event that is set by SIGTERM and SIGINT; for a temporary server also when its parent is gone."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    if options.record is None:
        threading.Thread(target=watch, daemon=True).start()
    return ended


def _write_record(options: ServerOptions, url: str) -> None:
    """Say where the server is, now that it answers."""
    record = Path(str(options.record))
    draft = record.with_suffix(f".{os.getpid()}.tmp")
    own = {"pid": os.getpid(), "url": url, "api": f"{url}/api", "services": options.services}
    draft.write_text(json.dumps(own | (options.about or {})) + "\n", encoding="utf-8")
    os.replace(draft, record)


class _Users:
    """The lock that all commands share that use a kept server; having it alone means that there are none.

    Args:
        file: The lock's file; without one there is nobody to wait for.
    """

    def __init__(self, file: str | None) -> None:
        self._file = open(file, "ab") if file else None  # noqa: SIM115, PTH123 - closed by the block

    def __enter__(self) -> _Users:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def none(self) -> bool:
        """Return whether nobody uses the server; from then on nobody can begin to."""
        return self._file is None or flock.taken(self._file)


async def _until_over(
    options: ServerOptions,
    over: asyncio.Event,
    serving: asyncio.Task[None],
    activity: Activity,
    pending: PendingWrites,
    users: _Users,
) -> None:
    """Wait until the server is to end."""
    ending = asyncio.create_task(over.wait())
    pause = 10.0 if options.idle_s is None else max(0.1, min(10.0, options.idle_s / 4))
    while True:
        done, _ = await asyncio.wait({ending, serving}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        if done or (options.idle_s is not None and activity.idle(options.idle_s) and users.none()):
            return
        await pending.missing()  # forgets what is written, so that its memory does not grow


async def _drain(server: uvicorn.Server, pending: PendingWrites) -> bool:
    """Wait until all that was received is in the database; False when time runs out.

    While requests are in work, or sockets open, an event may still be on its way: the quiet has to last longer then.
    """
    deadline, quiet = time.monotonic() + DRAIN_TIMEOUT_S, 0
    while quiet < (10 if server.server_state.tasks else 2):
        if time.monotonic() > deadline:
            return False
        quiet = 0 if await pending.missing() else quiet + 1
        await asyncio.sleep(0.05)
    return True


if __name__ == "__main__":
    main()
