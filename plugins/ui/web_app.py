"""The pages: the list of runs, one run, and the files of its results. Reading only, without a script of its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.plugins.ui.access import PACKAGE, TokenAccess
from leadline.plugins.ui.served_files import answer_with, files_of, folder_of
from leadline.tasks.ground.templating import page_style, render
from leadline.tasks.runs.run_index import RunIndex, RunLine, Wish, datasets_of
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PAGE: Final = 50
"""Runs on one page."""

MOST_QUERY: Final = 200
"""Characters of a search that are read."""

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

_log = logging.getLogger("leadline.ui")


@dataclass(frozen=True)
class Pages:
    """The pages of a store.

    Attributes:
        prefect: Address of Prefect's UI, as a browser sees it, or "".
        base: Path below which browsers find the pages, where a proxy takes that away.
    """

    store: Store
    prefect: str = ""
    base: str = ""
    index: RunIndex = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RunIndex(self.store))

    def app(self) -> Starlette:
        """Return the application, to which everybody has access: see :class:`.access.TokenAccess`."""
        routes = [
            Route("/style.css", _style),
            Route("/health", _health),
            Route("/", _in_thread(self.list)),
            Route("/runs/{name}", _in_thread(self.run)),
            Route("/{kind}/{name}/{file:path}", _in_thread(self.file)),
        ]
        own: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
            404: partial(_not_found, self.base),
            405: partial(_not_found, self.base),
            LeadlineError: partial(_unavailable, self.base),
        }
        return Starlette(routes=routes, exception_handlers=own)

    def list(self, request: Request) -> Response:
        """Show the runs that fit a reader's wish, newest first, a page at a time."""
        asked = {name: request.query_params.get(name, "")[:MOST_QUERY] for name in ("q", "verdict", "dataset")}
        wish = Wish(tuple(asked["q"].casefold().split()), asked["verdict"], asked["dataset"])
        every = self.index.lines()
        found = [line for line in every if wish.fits(line)]
        pages = max(1, -(-len(found) // PAGE))
        page = min(max(1, _number(request.query_params.get("page", ""))), pages)
        kept = {name: value for name, value in asked.items() if value}

        def link(number: int) -> str:
            return "?" + urlencode(kept | {"page": str(number)})

        return _page(
            "runs.html",
            self.base,
            store=self.store.location,
            runs=found[(page - 1) * PAGE : page * PAGE],
            found=len(found),
            total=len(every),
            asked=asked,
            kinds=KINDS,
            datasets=datasets_of(every),
            page=page,
            pages=pages,
            first=(page - 1) * PAGE + 1,
            earlier=link(page - 1) if page > 1 else "",
            later=link(page + 1) if page < pages else "",
        )

    def run(self, request: Request) -> Response:
        """Show one run: its verdict, and what there is to read of it."""
        line = self._line(request.path_params["name"])
        results = folder_of(self.store, "runs", line.id)
        listed = files_of(self.store, results) if results and line.has_report else []
        flow_run = f"{self.prefect}/runs/flow-run/{line.flow_run}" if self.prefect and line.flow_run else ""
        return _page("run.html", self.base, store=self.store.location, run=line, files=listed, flow_run=flow_run)

    def file(self, request: Request) -> Response:
        """Serve a file of a run's results or of a comparison."""
        kind, name, file = (request.path_params[part] for part in ("kind", "name", "file"))
        if kind not in ("runs", "comparisons"):
            raise HTTPException(404)
        folder = folder_of(self.store, kind, name)
        answer = folder and answer_with(self.store, folder, file)
        if not answer:
            raise HTTPException(404)
        return answer

    def _line(self, name: str) -> RunLine:
        try:
            line = self.index.line(name)
        except UsageError:
            line = None
        if line is None:
            raise HTTPException(404)
        return line


def protected(pages: Pages, token: str, *, cookie: str = "leadline-ui", secure: bool = False) -> ASGIApp:
    """Return the application behind a token.

    Args:
        cookie: Name of the cookie.
        secure: Whether browsers reach it by HTTPS only.
    """
    return TokenAccess(pages.app(), token, cookie, secure, pages.base)


def _in_thread(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Answer in a thread, since files are read and a bucket is asked."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return endpoint


def _page(template: str, base: str, *, status: int = 200, **context: object) -> Response:
    return HTMLResponse(render(PACKAGE, template, base=base, **context), status)


async def _style(request: Request) -> Response:
    """Send the style of the reports, and what the pages add to it."""
    del request
    text = page_style() + (files(PACKAGE) / "templates" / "pages.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"Cache-Control": "no-cache"})


async def _health(request: Request) -> Response:
    del request
    return JSONResponse({"ok": True})


async def _not_found(base: str, request: Request, error: Exception) -> Response:
    del request, error
    return _page("trouble.html", base, status=404, title="There is no such page", text="The run may have been removed.")


async def _unavailable(base: str, request: Request, error: Exception) -> Response:
    _log.warning("%s: %s", request.url.path, error)
    return _page("trouble.html", base, status=503, title="The store cannot be read now", text="Try again in a moment.")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1
