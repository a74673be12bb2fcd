"""The pages: access by token, the list of runs, one run, files of its results. Reading only, no scripts.

Files come from a folder or a bucket: those of results and comparisons, and nothing beside them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.plugins.http_server import same
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


MOST_FILES: Final = 60
"""Files that a run's page names."""

REPORT: Final = "report.html"

_PART: Final = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,199}")
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_INLINE: Final = {
    ".html": "text/html; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".xml": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""What a browser shows; all else is saved."""

_SANDBOX: Final = "sandbox allow-popups allow-popups-to-escape-sandbox allow-downloads"
_SILENT: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
PLAIN_POLICY: Final = f"{_SILENT}; {_SANDBOX}"
"""Policy of a file: an origin of its own, no script, no network."""

REPORT_POLICY: Final = f"{_SILENT}; script-src 'unsafe-inline'; {_SANDBOX} allow-scripts"
"""Policy of a report, whose own policy, in the page, allows its own script by its hash and no other."""

PURPOSES: Final = {
    REPORT: "the report, for people",
    "report.md": "the report as Markdown, for a pull request",
    "report.json": "the report as data",
    "junit.xml": "the gate as tests, for CI",
    "problems.csv": "problems, worst first",
    "aggregates.csv": "each metric of each model",
    "slices.csv": "each metric by slice",
    "scores.parquet": "every score",
    "scores.csv": "every score",
    "flips.csv": "verdicts that a perturbation flips",
}


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a run, for a list.

    Attributes:
        size: Its size in words.
        purpose: What it is, where that is known.
    """

    name: str
    size: str
    purpose: str


def folder_of(store: Store, kind: str, name: str) -> Path | None:
    """Return the folder of what is served of a run or a comparison; ``None`` where it cannot be one.

    Args:
        kind: ``runs`` or ``comparisons``.
        name: Its id.
    """
    if not _ID.fullmatch(name):
        return None
    if kind == "comparisons":
        return store.root / "comparisons" / name
    try:
        return store.run(name).results
    except UsageError:
        return None


def answer_with(store: Store, folder: Path, name: str) -> Response | None:
    """Return a file as an answer; ``None`` where there is none of this name.

    Args:
        folder: The folder, of which nothing outside is read.
        name: Path of the file below it, as it came from outside.
    """
    parts = name.split("/")
    if len(parts) > 8 or not all(_PART.fullmatch(part) for part in parts):
        return None
    path = folder.joinpath(*parts)
    if store.remote:
        if not path.exists() and store.remote.bucket.version(path.relative_to(store.root).as_posix()) is None:
            return None
        store.remote.fetch_changed(path)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    if not real.is_relative_to(folder.resolve()) or not real.is_file():  # a link may lead elsewhere
        return None
    kind = _INLINE.get(path.suffix.lower())
    headers = {
        "Content-Security-Policy": REPORT_POLICY if parts[-1] == REPORT else PLAIN_POLICY,
        "Cache-Control": "private, no-cache",
    }
    return FileResponse(
        real,
        media_type=kind or "application/octet-stream",
        headers=headers,
        filename=parts[-1],
        content_disposition_type="inline" if kind else "attachment",
    )


def files_of(store: Store, folder: Path) -> list[ServedFile]:
    """Return the files at the top of a folder of results; the report comes first."""
    if store.remote:
        prefix = folder.relative_to(store.root).as_posix()
        there = store.remote.bucket.objects(prefix)
        sizes = {name.removeprefix(f"{prefix}/"): size for name, size in there.items()}
    elif folder.is_dir():
        sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    else:
        sizes = {}
    shown = [name for name in sizes if "/" not in name and _PART.fullmatch(name)]
    order = list(PURPOSES)
    shown.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    return [ServedFile(name, _in_words(sizes[name]), PURPOSES.get(name, "")) for name in shown[:MOST_FILES]]


def _in_words(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
