"""A Prefect server for one run: it ends with the process that started it, after writing the whole history."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self, cast

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError
from leadline.flows.prefect.logs import new_log, tail
from leadline.flows.prefect.server_settings import DRAIN_TIMEOUT_S, READY, START_TIMEOUT_S, ServerOptions


class TemporaryServer:
    """A Prefect API on the loopback interface, as a child of this process, with the user's own database.

    The child starts on construction; :meth:`wait` waits until it answers and :meth:`stop` ends it. It also ends, with
    its history written, when this process is killed, because its standard input ends then.

    Args:
        environment: Environment of the child, Prefect's settings included.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._log = new_log("prefect")
        self._url = ""
        self._failed = False
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C is for the run, and the server must outlive it to write its history.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                ServerOptions(log=str(self._log)).command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment),
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
        """Let the server write what it has received, end it, and return whether all was written in time."""
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
        return not self._url or self._process.returncode == 0
