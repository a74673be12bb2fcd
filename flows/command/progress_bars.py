"""Progress of a run on standard error: a bar per lane on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

from leadline.flows.command.output import clean
from leadline.flows.command.session import Session, on_terminal, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from leadline.flows.shared.reporting import ProgressEvent

LINE_EVERY_S: Final = 5.0
_DOING: Final = {"collect": "asking", "generate": "asking"}


class Lines:
    """Says how far a run is, at most every few seconds, and when a lane is done.

    Args:
        every: Least number of seconds between two lines, those about a finished lane aside.
    """

    def __init__(self, every: float = LINE_EVERY_S) -> None:
        self._every = every
        self._last = time.monotonic()
        self._lanes: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = Lock()

    def __call__(self, event: ProgressEvent) -> None:
        """Take note of an event, and say something if it is time."""
        if not event.lane or not event.total:
            return
        with self._lock:
            place = (event.step, event.lane)
            before = self._lanes.get(place)
            self._lanes[place] = (event.done, event.total)
            finished = event.done >= event.total and before is not None and before[0] < before[1]
            now = time.monotonic()
            if finished or now - self._last >= self._every:
                self._last = now
                parts = (
                    self._lane_progress(lane, at) for (step, lane), at in self._lanes.items() if step == event.step
                )
                say(f"{_DOING.get(event.step, 'scoring')}: {', '.join(parts)}")

    def _lane_progress(self, lane: str, at: tuple[int, int]) -> str:
        done, total = at
        return f"{clean(lane)} {done:,}/{total:,} ({100 * done // total} %)"


class Bars:
    """Draws a bar for each lane, and names the step that runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lanes: dict[str, TaskID] = {}
        self._step: TaskID | None = None
        self._lock = Lock()

    def __call__(self, event: ProgressEvent) -> None:
        """Draw what an event says."""
        with self._lock:
            if event.lane:
                self._draw_lane(event)
            else:
                self._draw_step(event)

    def _draw_lane(self, event: ProgressEvent) -> None:
        from rich.markup import escape

        if event.lane not in self._lanes:
            name = escape(clean(event.lane))
            self._lanes[event.lane] = self._progress.add_task(f"{event.step}: {name}", total=event.total)
        self._progress.update(self._lanes[event.lane], completed=event.done, total=event.total)

    def _draw_step(self, event: ProgressEvent) -> None:
        if self._step is not None:
            self._progress.remove_task(self._step)
            self._step = None
        if not event.done:
            self._step = self._progress.add_task(event.step, total=None)


@contextmanager
def shown(session: Session) -> Iterator[None]:
    """Show the progress of the flows that run within the block."""
    from leadline.flows.shared.json_lines import wants_json
    from leadline.flows.shared.reporting import reporting

    if session.quiet:
        yield
    elif on_terminal(sys.stderr) and not wants_json():
        with terminal_bars() as progress, reporting(Bars(progress)):
            yield
    else:
        with reporting(Lines()):
            yield


def terminal_bars() -> Progress:
    """Return bars on standard error that are gone when they end."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
