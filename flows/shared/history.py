"""The history of a job: its run, a task run for each step, log lines, artifacts and events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

Logger: TypeAlias = "logging.Logger | logging.LoggerAdapter[Any]"


class History:
    """Keeps nothing: the history of a run that no server records.

    Attributes:
        log: Takes the lines of the run's log.
    """

    log: Logger = logging.getLogger("leadline.run")

    def origin(self) -> Mapping[str, str]:
        """Return what a record says of where the history is kept."""
        return {}

    @contextmanager
    def task_run(self, name: str, label: str, after: Sequence[str] = ()) -> Iterator[str]:
        """Keep the begin and the end of the block, and how it ended.

        Args:
            after: Ids of the task runs that it is drawn after.

        Yields:
            The id of the task run.
        """
        yield ""

    @contextmanager
    def flow_run(
        self, name: str, label: str, parameters: Mapping[str, Any], after: Sequence[str] = ()
    ) -> Iterator[tuple[History, str]]:
        """Keep the block as a run of a flow within this one.

        Args:
            parameters: What it was asked for, as JSON.
            after: Ids of the task runs that it is drawn after.

        Yields:
            Its history, and the id of the task run by which it is drawn.
        """
        yield self, ""

    def artifact(self, key: str, kind: str, data: Any, description: str) -> None:
        """Keep a text in Markdown, or a table.

        Args:
            kind: ``markdown`` or ``table``.
            data: The text, or the lines of the table.
        """

    def progress(self, description: str) -> Callable[[float], None]:
        """Return what keeps how far a work is, from 0 to 1, and is called again and again."""
        return lambda done: None

    def emit(self, event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
        """Send an event."""


NO_HISTORY = History()
