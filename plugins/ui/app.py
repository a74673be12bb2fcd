"""The application: the pages of a store behind what lets people in."""

from __future__ import annotations

import logging
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.plugins.ui.access import READING, AccessControl, TokenKeeper
from leadline.plugins.ui.pages import (
    again,
    audit,
    calls,
    cases,
    compare,
    costs,
    datasets,
    improve,
    labels,
    run,
    runs,
    suites,
    trends,
    work,
)
from leadline.plugins.ui.site import PACKAGE, Handlers, Site, Tab
from leadline.tasks.ground.templating import page_style
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from starlette.types import ASGIApp

TABS: Final = (
    Tab("Runs", "/"),
    Tab("Compare", "/compare"),
    Tab("Cases", "/cases"),
    Tab("Labels", "/labels"),
    Tab("Trends", "/trends"),
    Tab("Costs", "/costs"),
    Tab("Work", "/work"),
)
"""The navigation, from left to right."""

PAGES: Final = (
    runs, compare, cases, suites, again, calls, labels, improve, datasets, trends, costs, work, audit, run,
)  # fmt: skip
"""The modules of the pages; each gives its routes, and the first that fits an address answers."""

_MISSING: Final = ("There is no such page", "What it showed may have been removed.")

_log = logging.getLogger("leadline.ui")


def workbench(store: Store, prefect: str = "", base: str = "") -> Starlette:
    """Return the pages of a store, to which everybody has access: see :func:`protected`.

    Args:
        prefect: Address of Prefect's UI, as a browser sees it, or "".
        base: Path below which browsers find the pages, where a proxy takes that away.
    """
    site = Site(store, prefect, base, TABS)
    routes = [Route("/static/{name}", _static), Route("/health", _health)]
    routes += [route for page in PAGES for route in page.routes(site)]
    handlers: Handlers = {
        HTTPException: partial(_refused, site),
        UsageError: partial(_unusable, site),
        LeadlineError: partial(_unavailable, site),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.audit = site.audit
    return app


def protected(
    app: ASGIApp, token: str, *, cookie: str = "leadline-ui", secure: bool = False, base: str = ""
) -> ASGIApp:
    """Return an application behind a token.

    Args:
        cookie: Name of the cookie.
        secure: Whether browsers reach it by HTTPS only.
        base: Path below which browsers find it, where a proxy takes that away.
    """
    return AccessControl(app, TokenKeeper(token, cookie, secure, base))


@cache
def _own_files() -> dict[str, tuple[str, str]]:
    """Return the pages' own files with their types; the style is that of reports with what the pages add."""
    static = files(PACKAGE) / "static"
    return {
        "pages.css": ("text/css", page_style() + (static / "pages.css").read_text(encoding="utf-8")),
        "workbench.js": ("text/javascript", (static / "workbench.js").read_text(encoding="utf-8")),
    }


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _own_files():
        raise HTTPException(404)
    kind, text = _own_files()[name]
    return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _health(request: Request) -> Response:
    del request
    return JSONResponse({"ok": True})


async def _refused(site: Site, request: Request, error: Any) -> Response:
    title, text = _MISSING if error.status_code in (404, 405) else ("That cannot be done", error.detail)
    status = 404 if error.status_code == 405 else error.status_code
    return site.page(request, "trouble.html", status=status, title=title, text=text)


async def _unusable(site: Site, request: Request, error: Any) -> Response:
    title = "That cannot be shown" if request.method in READING else "That cannot be done"
    return site.page(request, "trouble.html", status=400, title=title, text=site.told(error))


async def _unavailable(site: Site, request: Request, error: Any) -> Response:
    _log.warning("%s: %s", request.url.path, error)
    store = "The store cannot be read" if request.method in READING else "The store takes nothing"
    where = "Prefect does not answer" if error.code is ErrorCode.SERVER_NONE else store
    title, text = f"{where} now", "Try again in a moment; the server's log says why."
    return site.page(request, "trouble.html", status=503, title=title, text=text)
