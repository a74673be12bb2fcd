"""The process of a kept Prefect server: it makes the database, answers, and ends when told to or when it is unused.

Prefect runs more than a hundred migrations on an empty database, which takes longer than all else that its server does
to start. ``prefect_schema.sql`` is what they leave behind in SQLite; it is used where the installed Prefect is the one
that it was written with, and a test compares the two. ``tests/support/prefect_schema.py`` writes it anew for another.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from leadline.evaluators.ground.secret_values import mask_logs
from leadline.tasks.ground.processes import process_record

if TYPE_CHECKING:
    import uvicorn


GRACE_S: Final = 5
"""Seconds that requests in work have to end in."""

SETTLE_S: Final = 2.5
"""Seconds for which it goes on when it is told to end: Prefect writes events every second, and drops what is left."""

SCHEMA: Final = Path(__file__).with_name("prefect_schema.sql")
FIRST_LINE: Final = "-- Prefect "


def main() -> None:
    """Serve Prefect's API on the loopback interface until it is to end."""
    mask_logs()
    gc.disable()  # all that is imported and built to start stays
    asyncio.run(_serve(Path(sys.argv[1]), json.loads(sys.argv[2])))


async def _serve(record: Path, about: Mapping[str, Any]) -> None:
    import uvicorn
    from prefect.server.api.server import create_app

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await asyncio.sleep(SETTLE_S)
            await super().shutdown(sockets)

    _prepare_database()
    config = uvicorn.Config(
        create_app(),
        host="127.0.0.1",
        port=urlsplit(about["url"]).port or 0,
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=GRACE_S,
    )
    server = Server(config)
    watching = asyncio.create_task(_watch(server, record, about))
    await server.serve()
    watching.cancel()


async def _watch(server: uvicorn.Server, record: Path, about: Mapping[str, Any]) -> None:
    """Say where the server is once it answers, and let it end when nobody has used it for a while."""
    while not server.started:
        await asyncio.sleep(0.02)
    gc.freeze()
    gc.enable()
    draft = record.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps({**about, "pid": os.getpid(), "process": process_record()}) + "\n", encoding="utf-8")
    os.replace(draft, record)
    if about["idle_minutes"] is not None:
        await _unused(server, 60 * about["idle_minutes"])
        server.should_exit = True


async def _unused(server: uvicorn.Server, limit_s: float) -> None:
    """Wait until nothing has been asked for so many seconds; an open socket, as a run's or the UI's, is a request."""
    seen, last = -1, time.monotonic()
    while time.monotonic() - last <= limit_s:
        await asyncio.sleep(max(0.1, min(10.0, limit_s / 4)))
        if server.server_state.tasks or server.server_state.total_requests != seen:
            seen, last = server.server_state.total_requests, time.monotonic()


def _prepare_database() -> bool:
    """Create the database that Prefect's settings name, if it is a file of SQLite that is not there yet.

    Returns:
        Whether it was created. If not, the server's own migrations do what is to be done.
    """
    import prefect
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL
    from sqlalchemy import make_url

    url = make_url(PREFECT_SERVER_DATABASE_CONNECTION_URL.value())
    script = SCHEMA.read_text(encoding="utf-8")
    if url.get_backend_name() != "sqlite" or not url.database or ":memory:" in url.database or url.query:
        return False
    if script.partition("\n")[0] != FIRST_LINE + prefect.__version__:
        return False
    return create(Path(url.database), script)


def create(file: Path, script: str) -> bool:
    """Create a database at once, as a whole, unless there is one."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    if file.exists() or not file.parent.is_dir():
        return False
    try:
        with closing(sqlite3.connect(draft)) as database:
            database.executescript(f"BEGIN;\n{script}\nCOMMIT;")
            database.execute("PRAGMA journal_mode = wal")
        os.link(draft, file)  # unlike a rename, never in place of what another server has made meanwhile
    except OSError:
        return False
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    return True


if __name__ == "__main__":
    main()
