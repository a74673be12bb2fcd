"""The pages: access by token, the list of runs, one run, files of its results. Reading only, no scripts."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.flows.shared.http_server import same
from leadline.plugins.ui.served_files import answer_with, files_of, folder_of
from leadline.tasks.ground.templating import page_style, render
from leadline.tasks.runs.run_index import RunIndex, RunLine, Wish, datasets_of
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
PACKAGE: Final = "leadline.plugins.ui"
TOKEN: Final = "token"  # noqa: S105 - the parameter's name
_COOKIE_S: Final = 30 * 24 * 3600
OPEN: Final = frozenset({"/health", "/style.css"})
"""What anybody may read: it says nothing about a run."""

_PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


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
        """Return the application, to which everybody has access: see :class:`TokenAccess`."""
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


@dataclass(frozen=True)
class TokenAccess:
    """The application behind a token: reading only, and every answer with the headers that keep browsers strict.

    Attributes:
        app: The application.
        cookie: Name of the cookie; browsers keep one jar for all ports of a host.
        secure: Whether browsers reach the page by HTTPS only.
        base: Path below which browsers find it, where a proxy takes that away.
    """

    app: ASGIApp
    token: str = field(repr=False)
    cookie: str = "leadline-ui"
    secure: bool = False
    base: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self._refusal(Request(scope))

        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (answer or self.app)(scope, receive, strict)

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that the application must not see."""
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"Allow": "GET, HEAD"})
        if request.scope["path"] in OPEN:  # what is routed by; an address is made of the header Host, too
            return None
        given = request.query_params.get(TOKEN)
        if given is not None and same(given, self.token):
            return self._welcome(request)
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same(bearer.strip(), self.token):
            return None
        if given is None and same(request.cookies.get(self.cookie, ""), self._pass()):
            return None
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN]
        return HTMLResponse(render(PACKAGE, "token.html", base=self.base, wrong=given is not None, kept=kept), 401)

    def _welcome(self, request: Request) -> Response:
        """Return the way to the same page without the token, which must not stay in the address."""
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN]
        path = f"{self.base}/" + request.url.path.lstrip("/\\")  # //HOST would lead elsewhere
        answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        secure = self.secure or request.url.scheme == "https"
        answer.set_cookie(
            self.cookie,
            self._pass(),
            max_age=_COOKIE_S,
            httponly=True,
            samesite="lax",
            secure=secure,
            path=f"{self.base}/",
        )
        return answer

    def _pass(self) -> str:
        """Return the cookie's value, from which nobody learns the token."""
        return hmac.new(self.token.encode(), b"leadline ui cookie", hashlib.sha256).hexdigest()
