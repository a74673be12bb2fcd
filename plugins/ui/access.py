"""Access to the pages: whoever has the token may read, and a cookie stands for it after the first request."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leadline.flows.shared.access_token import same
from leadline.tasks.ground.templating import render

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PACKAGE: Final = "leadline.plugins.ui"
TOKEN: Final = "token"  # noqa: S105 - the parameter's name
COOKIE_S: Final = 30 * 24 * 3600
OPEN: Final = frozenset({"/health", "/style.css"})
"""What anybody may read: it says nothing about a run."""

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


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
                headers.setdefault("Content-Security-Policy", PAGE_POLICY)
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
            max_age=COOKIE_S,
            httponly=True,
            samesite="lax",
            secure=secure,
            path=f"{self.base}/",
        )
        return answer

    def _pass(self) -> str:
        """Return the cookie's value, from which nobody learns the token."""
        return hmac.new(self.token.encode(), b"leadline ui cookie", hashlib.sha256).hexdigest()
