"""Progress of a run where somebody looks: a bar per lane in a notebook, or on a terminal."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

from leadline.flows.shared.job import reporting

if TYPE_CHECKING:
    from leadline.flows.shared.job import ProgressEvent


class NotebookBars:
    """Draws a bar per lane, and names the step that runs, in one output of a cell; nothing remains of it at the end.

    The output is HTML that the notebook itself replaces, so that no widgets need be installed.
    """

    def __init__(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._html = ipython.HTML
        self._lanes: dict[str, tuple[int, int]] = {}
        self._step = ""
        self._lock = Lock()
        self._shown = ""
        self._handle: Any = ipython.display(self._html(""), display_id=True)

    def __call__(self, event: ProgressEvent) -> None:
        """Draw what an event says; a bar is drawn anew with each whole percent."""
        with self._lock:
            if event.lane:
                self._lanes[f"{event.step}: {event.lane}"] = (event.done, event.total)
            else:
                self._step = "" if event.done else event.step
            text = "".join(self._lines())
            if text != self._shown and self._handle is not None:
                self._shown = text
                self._handle.update(self._html(text))

    def _lines(self) -> Iterator[str]:
        for name, (done, total) in self._lanes.items():
            percent = 100 * done // max(1, total)
            yield (
                f'<div>{html.escape(name)} <progress max="100" value="{percent}" style="vertical-align: middle">'
                f"</progress> {percent} % of {total:,}</div>"
            )
        if self._step:
            yield f"<div>{html.escape(self._step)} …</div>"

    def close(self) -> None:
        """Take the bars away."""
        with self._lock:
            if self._handle is not None:
                self._handle.update(self._html(""))


@contextmanager
def shown(progress: bool | None) -> Iterator[None]:
    """Show the progress of the runs within the block.

    Args:
        progress: Whether to; by default in notebooks and on terminals.
    """
    with ExitStack() as drawn:
        if progress is not False and in_notebook():
            bars = NotebookBars()
            drawn.callback(bars.close)
            drawn.enter_context(reporting(bars))
        elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            from leadline.flows.command.running import Bars, terminal_bars

            drawn.enter_context(reporting(Bars(drawn.enter_context(terminal_bars()))))
        yield


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which shows HTML; no terminal's IPython is."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
