"""Access: who is let in, what a request must look like, and the headers that keep browsers strict."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leadline.plugins.http_server import same
from leadline.plugins.ui.audit import address_of
from leadline.plugins.ui.site import PACKAGE, Person, PersonRole
from leadline.tasks.ground.templating import render

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"  # noqa: S105 - the parameter's name
COOKIE_S: Final = 30 * 24 * 3600
OPEN: Final = frozenset({"/health", "/static/pages.css", "/static/workbench.js"})
"""What anybody may read: it says nothing about a run."""

READING: Final = ("GET", "HEAD")
METHODS: Final = (*READING, "POST")

TRIES: Final = 10
TRIES_S: Final = 60.0
"""Wrong tokens or passwords of one address within this time, after which it has to wait."""

_PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Doorkeeper(Protocol):
    """A way to know people."""

    def person(self, request: Request) -> Person | None:
        """Return who asks, ``None`` where that is not known."""

    async def entrance(self, request: Request) -> Response:
        """Answer somebody who is not known: the way in, or a form that asks for it."""


@dataclass(frozen=True)
class AccessControl:
    """The application behind a doorkeeper; every answer has the headers that keep browsers strict.

    Attributes:
        app: The application.
        doorkeeper: Knows people.
        hosts: Names in the header ``Host`` that are ours, without the port; ``None`` for any. A page elsewhere whose
            name is made to lead here shows by its name.
    """

    app: ASGIApp
    doorkeeper: Doorkeeper
    hosts: frozenset[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = self._unfit(request)
        if (
            answer is None and scope["path"] not in OPEN
        ):  # what is routed by; an address is made of the header Host, too
            person = self.doorkeeper.person(request)
            scope.setdefault("state", {})["person"] = person
            answer = None if person else await self.doorkeeper.entrance(request)

        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (answer or self.app)(scope, receive, strict)

    def _unfit(self, request: Request) -> Response | None:
        """Return the answer to a request that no page of ours sends."""
        if request.method not in METHODS:
            return Response(status_code=405, headers={"Allow": ", ".join(METHODS)})
        if self.hosts is not None and host_in(request) not in self.hosts:
            return Response("This server is not known by this name. LEADLINE_UI_URL says by which it is.", 421)
        if request.method not in READING and not sent_by_own_page(request):
            return Response("This form was sent by another site.", 403)
        return None


def host_in(request: Request) -> str:
    """Return the name that a request calls this server, without the port."""
    host = request.headers.get("Host", "").lower()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def sent_by_own_page(request: Request) -> bool:
    """Return whether a request that changes something came from a page of this host, as far as the browser says."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host", "")


@dataclass
class Tries:
    """Wrong tokens or passwords, by address.

    Attributes:
        refused: Gets the request of each, with the name of who it is said to be from and why it was refused.
    """

    refused: Callable[[Request, str, str], None] = lambda request, name, why: None
    _wrong: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=TRIES)))

    def must_wait(self, request: Request) -> bool:
        """Return whether an address was wrong too often of late."""
        found = self._wrong.get(address_of(request))
        return bool(found) and len(found or ()) == TRIES and time.monotonic() - (found or [0.0])[0] < TRIES_S

    def wrong(self, request: Request, name: str = "", why: str = "") -> None:
        """Count a wrong one; addresses that have been quiet are forgotten when there are many.

        Args:
            name: Who it is said to be from, where there is such a person.
            why: The reason, if it is not a wrong token or password.
        """
        self.refused(request, name, why)
        if len(self._wrong) > 10_000:
            self._wrong.clear()
        self._wrong[address_of(request)].append(time.monotonic())


WAIT: Final = "Too many wrong tries. Wait a minute."


def derived(secret: str, purpose: str) -> str:
    """Return a value for a purpose from which nobody learns the secret."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def set_cookie(
    answer: Response, request: Request, name: str, value: str, *, secure: bool, base: str, seconds: int = COOKIE_S
) -> None:
    """Set a cookie of this site that no script reads and no other site sends."""
    answer.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="lax", secure=secure or request.url.scheme == "https",
        path=f"{base}/",
    )  # fmt: skip


def own_path(path: str, base: str) -> str:
    """Return a path of this site; ``//HOST`` would lead elsewhere."""
    return f"{base}/" + path.lstrip("/\\")


@dataclass(frozen=True)
class TokenKeeper:
    """Lets in whoever has the token; they may do everything.

    Attributes:
        cookie: Name of the cookie; browsers keep one jar for all ports of a host.
        secure: Whether browsers reach the page by HTTPS only.
        base: Path below which browsers find it, where a proxy takes that away.
    """

    token: str = field(repr=False)
    cookie: str = "leadline-ui"
    secure: bool = False
    base: str = ""
    tries: Tries = field(default_factory=Tries)

    def person(self, request: Request) -> Person | None:
        """Return somebody without a name who has the token, as a cookie or in the header ``Authorization``."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and not self.tries.must_wait(request):
            if same(bearer.strip(), self.token):
                return self._everybody()
            self.tries.wrong(request)
        asked = TOKEN in request.query_params
        known = not asked and same(request.cookies.get(self.cookie, ""), derived(self.token, "leadline ui cookie"))
        return self._everybody() if known else None

    async def entrance(self, request: Request) -> Response:
        """Take a token that stands in the address, or ask for it."""
        given = request.query_params.get(TOKEN)
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN]
        if given and self.tries.must_wait(request):
            return Response(WAIT, 429)
        if given is not None and same(given, self.token):
            answer = RedirectResponse(
                own_path(request.url.path, self.base) + (f"?{urlencode(rest)}" if rest else ""), 303
            )
            cookie = derived(self.token, "leadline ui cookie")
            set_cookie(answer, request, self.cookie, cookie, secure=self.secure, base=self.base)
            return answer
        if given:
            self.tries.wrong(request)
        return HTMLResponse(render(PACKAGE, "token.html", base=self.base, wrong=given is not None, kept=rest), 401)

    def _everybody(self) -> Person:
        return Person("", PersonRole.EDITOR, derived(self.token, "leadline ui form"))
