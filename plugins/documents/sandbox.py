"""Reading PDF and HTML in a process of its own, with a deadline and bounded memory.

Both formats have readers that a file made on purpose can keep busy for hours or fill the memory with. The process is
started with the first such file, reads one after the other, and is made anew when it had to be ended. It sends what it
read in JSON, since nothing that a file may have taken over should be unpickled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from leadline.plugins.documents.html_and_pdf import DocumentDraft, read_page, read_pages
from leadline.tasks.generate.documents import Document, DocumentKind, File, Mark, Unreadable
from leadline.tasks.ground.processes import end_with_input

SILENCE_S: Final = 60.0
"""Longest time for a page of PDF, or for all of an HTML file."""

FILE_S: Final = 1_800.0
"""Longest time for a file."""

MEMORY: Final = 4 * 1024**3
"""Bytes that the process may take."""

_STOP_S: Final = 5.0


class SandboxedReader(AbstractContextManager["SandboxedReader"]):
    """Reads files in another process.

    Args:
        silence_s: Longest time without anything read.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._end()

    def read(self, file: File, encoding: str | None = None) -> Document:
        """Read a file.

        Raises:
            Unreadable: It cannot be read, or not in time.
        """
        draft = DocumentDraft()
        document: Document | None = None
        for message in self._messages({"path": os.fsencode(file.path).hex(), "kind": file.kind, "encoding": encoding}):
            if "text" in message:
                marks = tuple(Mark(start, page, tuple(heading)) for start, page, heading in message["marks"])
                document = Document(file.uri, message["text"], marks)
            else:
                if draft.length:
                    draft.add("\n")
                draft.mark(message["page"], tuple(message["heading"]))
                draft.add(message["of_page"].strip())
        return document or draft.document(file.uri)

    def _messages(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what the process sends of a file until it is done."""
        pipe = self._pipe or self._start()
        until = time.monotonic() + FILE_S
        try:
            pipe.send_bytes(orjson.dumps(request))
            while True:
                if not pipe.poll(min(self._silence_s, until - time.monotonic())):
                    raise Unreadable(f"reading it takes longer than {self._silence_s:g} s a page, so it was given up")
                message = orjson.loads(pipe.recv_bytes())
                if message.get("fault"):
                    raise Unreadable(message["fault"])
                if message.get("done"):
                    return
                yield message
        except (EOFError, OSError):
            self._end()
            raise Unreadable("the process that read it died; is it broken?") from None
        except BaseException as error:
            if not isinstance(error, Unreadable) or "given up" in str(error):
                self._end()  # it may be in the middle of the file
            raise

    def _start(self) -> Connection:
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._pipe

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._pipe = self._process = None


def serve(pipe: Connection) -> None:
    """Read files until nobody asks for more; the work of the other process."""
    _bound_memory()
    while True:
        try:
            request = orjson.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            for message in _read(request):
                pipe.send_bytes(orjson.dumps(message))
            answer: dict[str, Any] = {"done": True}
        except Unreadable as error:
            answer = {"fault": str(error)}
        except MemoryError:
            answer = {"fault": "reading it takes too much memory"}
        except RecursionError:
            answer = {"fault": "it is nested too deeply"}
        except OSError as error:
            answer = {"fault": f"it cannot be read: {error.strerror or error}"}
        pipe.send_bytes(orjson.dumps(answer))


def _read(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    path = Path(os.fsdecode(bytes.fromhex(request["path"])))
    if request["kind"] == DocumentKind.PDF:
        for text, page, heading in read_pages(path):
            yield {"of_page": text, "page": page, "heading": heading}
        return
    page_read = read_page("", path.read_bytes(), request["encoding"])
    yield {"text": page_read.text, "marks": [(mark.start, mark.page, mark.heading) for mark in page_read.marks]}


def _bound_memory() -> None:
    """Let the process fail, and no other, where a file would fill the memory."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    end_with_input()
    serve(Connection(int(sys.argv[1])))
