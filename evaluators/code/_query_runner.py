"""The process that runs queries, from this side: started when it is needed, killed when it takes too long."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

PROGRAM: Final = Path(__file__).with_name("_duckdb_process.py")
GRACE: Final = 10.0
"""Seconds beyond those of both queries after which the process is killed: it starts, and makes tables."""


class QueryRunner:
    """Runs pairs of queries in a process of its own, for the length of a ``with``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    def __enter__(self) -> QueryRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def compare(self, asked: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return what the process says of a pair of queries; where it is stopped, or ends, during which of them.

        The next pair then gets another process.

        Args:
            asked: ``setup``, ``tables``, ``memory``, ``expected``, ``actual`` and ``ordered``.
            seconds: How long each query may take.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={}, cwd="/",
            )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        side = "setup"
        try:
            self._process.stdin.write(json.dumps({**asked, "seconds": seconds}).encode() + b"\n")
            self._process.stdin.flush()
            deadline = time.monotonic() + 2 * seconds + GRACE
            while True:
                answer: dict[str, Any] = json.loads(self._line(deadline))
                if "begins" in answer:
                    side = answer["begins"]
                    continue
                if answer.get("fault") == "memory":  # DuckDB does not outlive an allocation that failed
                    self._stop()
                return answer
        except (OSError, ValueError, TimeoutError):
            self._stop()
            why = "the process that runs queries was stopped: one took too much time or memory"
            return {"fault": "stopped", "side": side, "message": why}

    def _line(self, deadline: float) -> bytes:
        assert self._process is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        out = self._process.stdout.fileno()
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise TimeoutError
            part = os.read(out, 65_536)
            if not part:
                raise ValueError("the process ended")
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        continue
            self._process.wait()
            self._process, self._said = None, b""
