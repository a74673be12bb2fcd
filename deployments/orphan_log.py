"""A run's lines on its worker's terminal, of which there may be no reader any more, as text or as JSON.

A worker that is killed leaves its runs behind, and they go on; but the pipe that they write to is closed, and Prefect's
handler then ends the process (``rich.console.Console.on_broken_pipe``). Prefect sets this one up in its place by
``PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS``, which ``prefect.yaml`` gives to every run.
"""

from __future__ import annotations

import logging
import os
import sys

from prefect.logging.handlers import PrefectConsoleHandler

from leadline.flows.shared.logs import JsonLines, wants_json


class OrphanConsoleHandler(PrefectConsoleHandler):
    """Prefect's handler, which is silent once nobody listens; Prefect's server gets the lines all the same."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            if wants_json():
                self._write(JsonLines().format(record))
            else:
                super().emit(record)
        except (SystemExit, BrokenPipeError):
            nobody = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):  # what else writes there must not fail either
                os.dup2(nobody, stream.fileno())
            os.close(nobody)

    def _write(self, line: str) -> None:
        stream = self.console.file
        stream.write(line + "\n")
        stream.flush()
