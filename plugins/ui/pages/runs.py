"""The list of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.plugins.ui.site import Site, asked, pager, shows
from leadline.tasks.runs.run_index import RunLine, Wish, datasets_of

PAGE: Final = 50
"""Runs on one page."""

KINDS: Final = (
    ("pass", "Passes"),
    ("fail", "Fails"),
    ("inconclusive", "Cannot be told"),
    ("completed", "Without a gate"),
    ("running", "Running"),
    ("failed", "Failed"),
    ("interrupted", "Interrupted"),
    ("lost", "Lost"),
)
"""What a reader may filter by."""

SEVERITIES: Final = ("high", "medium", "low")

ORDERS: Final[Mapping[str, tuple[str, Callable[[RunLine], Any], bool]]] = {
    "": ("newest first", lambda line: line.place, True),
    "old": ("oldest first", lambda line: line.place, False),
    "problems": ("most problems first", lambda line: [line.problems.get(one, 0) for one in SEVERITIES], True),
    "rows": ("most rows first", lambda line: line.rows or 0, True),
    "time": ("longest first", lambda line: line.seconds or 0.0, True),
}
"""What a list of runs may be sorted by: in words, the key, and whether the largest comes first."""


def routes(site: Site) -> list[Route]:
    """Return the page's routes."""

    def show(request: Request) -> Response:
        """Show the runs that fit a reader's wish, a page at a time."""
        wanted = asked(request, "q", "verdict", "dataset", "sort")
        wish = Wish(tuple(wanted["q"].casefold().split()), wanted["verdict"], wanted["dataset"])
        every = site.index.lines()
        found = [line for line in every if wish.fits(line)]
        _, key, largest_first = ORDERS.get(wanted["sort"], ORDERS[""])
        found.sort(key=key, reverse=largest_first)
        place = pager(request, len(found), PAGE)
        return site.page(
            request, "runs.html", runs=found[place.offset : place.last], total=len(every), asked=wanted, kinds=KINDS,
            orders=[(name, order[0]) for name, order in ORDERS.items()], datasets=datasets_of(every), pager=place,
            running=any(line.status == "running" for line in every),
        )  # fmt: skip

    return [shows("/", show)]
