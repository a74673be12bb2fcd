"""The site that all pages share: the store behind them, who is looking, addresses, and the frame around a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground import UsageError
from leadline.plugins.http_server import same
from leadline.plugins.ui.audit import AuditLog, address_of
from leadline.plugins.ui.workshop import Workshop
from leadline.tasks.ground.templating import render
from leadline.tasks.runs.run_index import RunIndex, RunLine
from leadline.tasks.store.store import Store

PACKAGE: Final = "leadline.plugins.ui"

MOST_QUERY: Final = 200
"""Characters of a search that are read."""

MOST_FORM: Final = 256 * 1024
"""Bytes of a form that are read."""

CSRF: Final = "csrf"
"""The field of a form that shows that one of our pages sent it."""


class PersonRole(IntEnum):
    """The things that a person may do; each role may do what the ones before it may."""

    VIEWER = 1
    LABELLER = 2
    EDITOR = 3


@dataclass(frozen=True, slots=True)
class Person:
    """The person who is looking.

    Attributes:
        name: "" where everybody shares one token.
        role: What they may do.
        csrf: The value that their forms must send back.
        signs_in: Whether they signed in here, and may sign out.
    """

    name: str
    role: PersonRole
    csrf: str = field(default="", repr=False)
    signs_in: bool = False

    @property
    def may_label(self) -> bool:
        """True if they may write labels."""
        return self.role >= PersonRole.LABELLER

    @property
    def may_edit(self) -> bool:
        """True if they may start work."""
        return self.role >= PersonRole.EDITOR


class Tab(NamedTuple):
    """A page of the navigation."""

    title: str
    path: str


@dataclass(frozen=True)
class Site:
    """A store as the pages see it.

    Attributes:
        prefect: Address of Prefect's UI, as a browser sees it, or "".
        base: Path below which browsers find the pages, where a proxy takes that away.
        tabs: The pages of the navigation.
    """

    store: Store
    prefect: str = ""
    base: str = ""
    tabs: tuple[Tab, ...] = ()
    index: RunIndex = field(init=False)
    audit: AuditLog = field(init=False)
    workshop: Workshop = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RunIndex(self.store))
        object.__setattr__(self, "audit", AuditLog(self.store))
        object.__setattr__(self, "workshop", Workshop(self.store.root / "tmp" / "ui-work"))

    def link(self, *parts: str, **query: object) -> str:
        """Return the address of a page; what is empty in the query is left out."""
        path = "".join(f"/{quote(part, safe='')}" for part in parts) or "/"
        asked = {name: str(value) for name, value in query.items() if value is not None and value != ""}
        return f"{self.base}{path}" + (f"?{urlencode(asked)}" if asked else "")

    def page(self, request: Request, template: str, *, status: int = 200, **context: object) -> Response:
        """Fill in a template within the frame of the site."""
        path = request.scope["path"]
        here = max((tab.path for tab in self.tabs if is_below(path, tab.path)), key=len, default="")
        shown = {
            "base": self.base,
            "site": self,
            "here": here,
            "person": person_of(request),
            "store": self.store.name,
        }
        return HTMLResponse(render(PACKAGE, template, **shown, **context), status)

    def run(self, name: str) -> RunLine:
        """Return a run in short.

        Raises:
            HTTPException: There is none of that id.
        """
        try:
            line = self.index.line(name)
        except UsageError:
            line = None
        if line is None:
            raise HTTPException(404)
        return line

    def told(self, what: object) -> str:
        """Return an error, or what work says, in words for a page, which names the store and not its place."""
        return str(what).replace(self.store.location, self.store.name)

    def back(self, *parts: str, **query: object) -> Response:
        """Return the answer to a form that was obeyed: the way to a page that shows what came of it."""
        return RedirectResponse(self.link(*parts, **query), 303)


def is_below(path: str, tab: str) -> bool:
    """Return whether a path belongs to a tab of the navigation."""
    return path == tab or path.startswith(tab.rstrip("/") + "/")


def person_of(request: Request) -> Person:
    """Return who asks; a viewer without a name where nobody said."""
    return request.scope.get("state", {}).get("person") or Person("", PersonRole.VIEWER)


def asked(request: Request, *names: str) -> dict[str, str]:
    """Return parts of a query as short texts, "" for what is missing."""
    return {name: request.query_params.get(name, "")[:MOST_QUERY] for name in names}


def number(text: str, default: int = 1) -> int:
    """Return a small whole number that somebody sent."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else default


@dataclass(frozen=True, slots=True)
class Pager:
    """One page of a long list.

    Attributes:
        total: Lines of the list.
        page: From 1.
        size: Lines of a page.
        link: Gives the address of a page.
    """

    total: int
    page: int
    size: int
    link: Callable[[int], str] = field(repr=False)

    @property
    def pages(self) -> int:
        """Pages of the list."""
        return max(1, -(-self.total // self.size))

    @property
    def offset(self) -> int:
        """Lines before this page."""
        return (self.page - 1) * self.size

    @property
    def last(self) -> int:
        """Number of the page's last line."""
        return min(self.total, self.offset + self.size)

    @property
    def before(self) -> str:
        """The address of the page before it, or ""."""
        return self.link(self.page - 1) if self.page > 1 else ""

    @property
    def after(self) -> str:
        """The address of the page after it, or ""."""
        return self.link(self.page + 1) if self.page < self.pages else ""


def pager(request: Request, total: int, size: int) -> Pager:
    """Return the page that a request asks for; one beyond the list's end is its last."""
    kept = {name: value for name, value in request.query_params.items() if name != "page" and value}
    page = min(max(1, number(request.query_params.get("page", ""))), max(1, -(-total // size)))
    return Pager(total, page, size, lambda other: "?" + urlencode(kept | {"page": str(other)}))


def shows(path: str, answer: Callable[[Request], Response]) -> Route:
    """Return a route that reads; it answers in a thread, since files are read and a bucket is asked."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return Route(path, endpoint, methods=["GET"])


def noted(request: Request, did: str, **about: object) -> None:
    """Say for the audit log what was done at a request; without it, the log has the address of the form.

    Args:
        did: In the past tense.
        **about: What it concerned; ``person`` is who did it where access does not know the name.
    """
    request.scope.setdefault("state", {})["noted"] = (did, about)


def does(path: str, role: PersonRole, answer: Callable[[Request, Mapping[str, str]], Response]) -> Route:
    """Return a route that obeys a form of one of our pages, for people of a role; what it did is in the audit log.

    Args:
        answer: Gets the form's fields, each once; says by :func:`noted` what it did.
    """

    async def endpoint(request: Request) -> Response:
        person = person_of(request)
        form = dict(parse_qsl(await read_body(request), keep_blank_values=True, max_num_fields=1000))
        if not person.csrf or not same(form.pop(CSRF, ""), person.csrf):
            raise HTTPException(403, "This form is too old. Go back, load the page again, and send it once more.")
        if person.role < role:
            raise HTTPException(403, f"That needs the role {role.name.lower()}.")
        answered = await run_in_threadpool(answer, request, form)
        if answered.status_code < 400 and (audit := getattr(request.app.state, "audit", None)):
            did, about = request.scope.get("state", {}).get("noted", (request.scope["path"], {}))
            named = str(about.pop("person", ""))
            await run_in_threadpool(
                audit.write, did, person=person.name or named, address=address_of(request), about=about
            )
        return answered

    return Route(path, endpoint, methods=["POST"])


async def read_body(request: Request) -> str:
    """Return the body of a request that sends a form, of limited size; files are not taken.

    Raises:
        HTTPException: It is no such form, or too large.
    """
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM:
            raise HTTPException(413)
    return body.decode("utf-8", "replace")


Handlers = dict[Any, Callable[[Request, Exception], Awaitable[Response]]]
