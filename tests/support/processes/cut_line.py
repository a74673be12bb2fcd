"""A connection to a server that tests can cut: what goes through it fails for a while, and the server lives on.

``with CutLine(port, folder) as line: line.port``. Whoever makes the file ``cut`` in the folder cuts it; the file ``up``
is there while connections are taken.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

AWAY_S: Final = 1.0


class CutLine:
    """Passes on what comes to a port of its own.

    Args:
        target: The server's port on loopback.
        folder: For the files ``cut`` and ``up``.

    Attributes:
        port: Its own port.
        cuts: How often it was cut.
    """

    def __init__(self, target: int, folder: Path) -> None:
        self.port = self.cuts = 0
        self._target = target
        self._cut, self._up = folder / "cut", folder / "up"
        self._connections: set[asyncio.StreamWriter] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._up.exists():
            assert self._thread.is_alive()
            self._over.wait(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(10)

    async def _serve(self) -> None:
        while not self._over.is_set():
            server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
            self.port = server.sockets[0].getsockname()[1]
            self._up.touch()
            while not self._over.is_set() and not self._cut.exists():
                await asyncio.sleep(0.02)
            server.close()
            for writer in list(self._connections):
                writer.transport.abort()
            if self._cut.exists():
                self.cuts += 1
                self._cut.unlink()
                self._up.unlink()
                await asyncio.sleep(AWAY_S)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._connections.add(back)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
            self._connections.discard(back)
        writer.close()
        self._connections.discard(writer)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await source.read(1 << 16):
            target.write(content)
            await target.drain()
    with suppress(OSError):
        target.close()
