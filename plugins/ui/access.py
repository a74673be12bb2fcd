"""Access: a token, a cookie made of it, and the headers that keep browsers strict."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leadline.plugins.http_server import same
from leadline.plugins.ui.site import PACKAGE, Person, Role
from leadline.tasks.ground.templating import render

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"  # noqa: S105 - the parameter's name
_COOKIE_S: Final = 30 * 24 * 3600
OPEN: Final = frozenset({"/health", "/static/pages.css", "/static/workbench.js"})
"""What anybody may read: it says nothing about a run."""

READING: Final = ("GET", "HEAD")
METHODS: Final = (*READING, "POST")

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


@dataclass(frozen=True)
class TokenAccess:
    """The application behind a token; whoever has it may do everything.

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
        scope.setdefault("state", {})["person"] = Person("", Role.EDITOR, self._derived(b"leadline ui form"))

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
        if request.method not in METHODS:
            return Response(status_code=405, headers={"Allow": ", ".join(METHODS)})
        if request.method not in READING and not sent_by_own_page(request):
            return Response("This form was sent by another site.", 403)
        if request.scope["path"] in OPEN:  # what is routed by; an address is made of the header Host, too
            return None
        given = request.query_params.get(TOKEN)
        if given is not None and same(given, self.token):
            return self._welcome(request)
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same(bearer.strip(), self.token):
            return None
        if given is None and same(request.cookies.get(self.cookie, ""), self._derived(b"leadline ui cookie")):
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
            self._derived(b"leadline ui cookie"),
            max_age=_COOKIE_S,
            httponly=True,
            samesite="lax",
            secure=secure,
            path=f"{self.base}/",
        )
        return answer

    def _derived(self, purpose: bytes) -> str:
        """Return a value from which nobody learns the token."""
        return hmac.new(self.token.encode(), purpose, hashlib.sha256).hexdigest()


def sent_by_own_page(request: Request) -> bool:
    """Return whether a request that changes something came from a page of this host, as far as the browser says."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host", "")
