"""Signing in at an OpenID Connect provider: discovery, the code flow with PKCE, and an ID token that is verified.

It needs the extra ``oidc`` (Authlib), which is imported when somebody signs in.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leadline.evaluators.ground import ErrorCode, UsageError, masked
from leadline.flows.prefect.server import is_loopback
from leadline.plugins.http_server import same
from leadline.plugins.ui.access import READING, WAIT, Tries, derived, own_path
from leadline.plugins.ui.site import PACKAGE, Person, PersonRole
from leadline.plugins.ui.users import LOGIN, NAME, Sessions, UserKeeper
from leadline.tasks.ground.templating import render

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import AsyncOAuth2Client

CALLBACK: Final = f"{LOGIN}/oidc"
"""Where the provider sends people back to."""

SESSION_S: Final = 12 * 3600
"""Time after which the provider is asked again, and with it who somebody is and what they may do."""

SIGNING_IN_S: Final = 600
"""Time that people have to sign in at the provider."""

ANSWER_S: Final = 15.0
LEEWAY_S: Final = 60
"""Difference between the provider's clock and this one that is borne."""

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures that are accepted: those by a key that the provider alone has; neither none, nor by a shared secret."""

SCOPE: Final = "openid email profile"
EMAIL: Final = "email"

_log = logging.getLogger("leadline.ui")


class RefusedSignInError(Exception):
    """Somebody is not let in; the text says why, to them and to the audit log."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This server as a provider knows it, and what it takes from the provider's claims.

    Attributes:
        issuer: The provider's address.
        client: This server's id there.
        secret: Its secret, or "" for one that has none.
        role_claim: Claim with roles, if roles come from the provider.
        name_claim: Claim with the name under which people are known.
    """

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    role_claim: str | None = None
    name_claim: str = EMAIL

    def __post_init__(self) -> None:
        if urlsplit(self.issuer).scheme != "https" and not is_loopback(self.issuer):
            raise UsageError(
                f"--oidc-issuer {self.issuer[:200]} is no address that begins with https://.",
                hint="Write it as the provider's own discovery document does.",
                code=ErrorCode.CONFIG_OPTION,
            )

    async def address(self, redirect: str, state: str, nonce: str, verifier: str) -> str:
        """Return the provider's page at which people sign in."""
        async with self._session(redirect) as session, asyncio.timeout(ANSWER_S):
            where = (await self._discovered(session))["authorization_endpoint"]
            made, _ = session.create_authorization_url(where, state=state, nonce=nonce, code_verifier=verifier)
            return str(made)

    async def claims(self, redirect: str, code: str, nonce: str, verifier: str) -> Mapping[str, Any]:
        """Return what the provider says of who signed in, from an ID token that was verified.

        Raises:
            RefusedSignInError: The code or the token is not what it should be.
        """
        from authlib.common.errors import AuthlibBaseError
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        async with self._session(redirect) as session, asyncio.timeout(ANSWER_S):
            about = await self._discovered(session)
            if self.secret and "client_secret_basic" not in about.get(
                "token_endpoint_auth_methods_supported", ["client_secret_basic"]
            ):
                session.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - a method's name
            try:
                token = await session.fetch_token(about["token_endpoint"], code=code, code_verifier=verifier)
                keys = await session.request("GET", about["jwks_uri"], withhold_token=True)
                accepted = ALGORITHMS & set(about.get("id_token_signing_alg_values_supported", ["RS256"]))
                decoded = jwt.decode(str(token["id_token"]), KeySet.import_key_set(keys.json()), list(accepted))
                rules = {"iss": {"essential": True, "value": about["issuer"]},
                         "aud": {"essential": True, "value": self.client}}  # fmt: skip
                asked = {"nonce": nonce, "client_id": self.client, "access_token": token.get("access_token")}
                claims = CodeIDToken(decoded.claims, decoded.header, rules, asked)
                claims.validate(leeway=LEEWAY_S)
            except (AuthlibBaseError, JoseError, KeyError, ValueError) as error:
                raise RefusedSignInError(
                    f"The provider's answer cannot be trusted: {masked(str(error))[:200]}"
                ) from error
            return dict(claims)

    def name_in(self, claims: Mapping[str, Any]) -> str:
        """Return the name of who signed in.

        Raises:
            RefusedSignInError: There is none that can be trusted.
        """
        name = str(claims.get(self.name_claim, ""))
        if self.name_claim == EMAIL:
            if claims.get("email_verified") is not True:
                raise RefusedSignInError("The provider has not verified your email address.")
            name = name.lower()
        if not NAME.fullmatch(name):
            raise RefusedSignInError(f"The provider's claim {self.name_claim} has no name.")
        return name

    def role_in(self, claims: Mapping[str, Any]) -> PersonRole | None:
        """Return the highest role that the provider's claim names, such as ``editor`` or ``leadline-editor``."""
        found: Any = claims.get(self.role_claim or "")
        if found is None:  # a path, as in realm_access.roles
            found = claims
            for part in (self.role_claim or "").split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        texts = found if isinstance(found, list) else [found]
        names = {str(text).lower().removeprefix("leadline-") for text in texts}
        return max((role for role in PersonRole if role.name.lower() in names), default=None)

    def _session(self, redirect: str) -> AsyncOAuth2Client:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        return AsyncOAuth2Client(
            self.client, self.secret or None, token_endpoint_auth_method=None if self.secret else "none", scope=SCOPE,
            redirect_uri=redirect, code_challenge_method="S256", timeout=ANSWER_S,
            trust_env=not is_loopback(self.issuer),
        )  # fmt: skip

    async def _discovered(self, session: AsyncOAuth2Client) -> dict[str, Any]:
        """Return the provider's own description, of itself and of places that no one between can change."""
        place = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = await session.request("GET", place, withhold_token=True)
        answer.raise_for_status()
        about = dict(answer.json())
        if str(about["issuer"]).rstrip("/") != self.issuer.rstrip("/"):
            raise ValueError(f"{place} describes another issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if urlsplit(about[name]).scheme != "https" and not (is_loopback(about[name]) and is_loopback(self.issuer)):
                raise ValueError(f"{place}: {name} is no address that begins with https://")
        return about


@dataclass(frozen=True)
class OidcKeeper:
    """Lets in whom a provider knows and who has a role: by the file of users, else by a claim.

    On the way there and back a signed cookie has the state; nonce and verifier follow from it and the server's key.

    Attributes:
        client: This server as the provider knows it.
        sessions: The cookies of who is in.
        home: Address at which browsers find this server, as the provider knows it.
        users: The file with roles, or ``None``.
    """

    client: OidcClient
    sessions: Sessions
    home: str
    users: UserKeeper | None = None
    tries: Tries = field(default_factory=Tries)

    def person(self, request: Request) -> Person | None:
        """Return the person whose session it is; nobody on the way in or out."""
        if request.scope["path"] in (LOGIN, CALLBACK):
            return None
        found = self.sessions.read(request, lambda name, role: self._grounds())
        role = self._role(found[0], found[1]) if found else None
        if found is None or role is None:
            return None
        return Person(found[0], role, derived(self.sessions.key, f"form oidc {found[0]}"), signs_in=True)

    async def entrance(self, request: Request) -> Response:
        """Send people to the provider, take who comes back, or show that somebody signed out."""
        if request.scope["path"] == LOGIN or request.method not in READING:
            answer = self._page("You are signed out here.", status=401)
            answer.delete_cookie(self.sessions.cookie, path=f"{self.sessions.base}/")
            return answer
        if self.tries.must_wait(request):
            return self._page(WAIT, status=429)
        try:
            if request.scope["path"] == CALLBACK:
                return await self._enter(request)
            return await self._leave_for_provider(request)
        except RefusedSignInError as error:
            self.tries.wrong(request, why=str(error))
            return self._page(str(error), status=403)
        except Exception as error:  # whatever it is: nobody is let in, and the log says why
            _log.warning("OIDC: %s: %s", type(error).__name__, masked(str(error)))
            return self._page("The provider does not answer as it should. Try again in a moment.", status=502)

    async def _leave_for_provider(self, request: Request) -> Response:
        state = secrets.token_urlsafe(24)
        where = await self.client.address(self._redirect, state, self._nonce(state), self._verifier(state))
        wanted, ends = quote(request.scope["path"], safe=""), str(int(time.time()) + SIGNING_IN_S)
        answer = RedirectResponse(where, 303)
        self.sessions.set(answer, request, f"{wanted}|{ends}|{self._seal(state, wanted, ends)}", SIGNING_IN_S,
                          name=self._cookie(state))  # fmt: skip
        return answer

    async def _enter(self, request: Request) -> Response:
        given = {name: request.query_params.get(name, "") for name in ("state", "code", "iss", "error")}
        kept = request.cookies.get(self._cookie(given["state"]), "")
        wanted, _, rest = kept.partition("|")
        ends, _, seal = rest.partition("|")
        if not same(seal, self._seal(given["state"], wanted, ends)) or int(ends) < time.time():
            raise RefusedSignInError("This sign-in was not begun here, or took too long. Begin again.")
        if given["iss"] and given["iss"].rstrip("/") != self.client.issuer.rstrip("/"):
            raise RefusedSignInError("Another provider answered.")
        if given["error"] or not given["code"]:
            raise RefusedSignInError(f"The provider let nobody in: {given['error'][:100] or 'it gave no code'}.")
        state = given["state"]
        claims = await self.client.claims(self._redirect, given["code"], self._nonce(state), self._verifier(state))
        name = self.client.name_in(claims)
        claimed = self.client.role_in(claims)
        if self._role(name, claimed.name if claimed else "") is None:
            raise RefusedSignInError(f"{name} has no role here. Ask who runs this server.")
        answer = RedirectResponse(own_path(unquote(wanted), self.sessions.base), 303)
        role = claimed.name if claimed else ""
        self.sessions.begin(answer, request, name, role, self._grounds(), seconds=SESSION_S)
        answer.delete_cookie(self._cookie(state), path=f"{self.sessions.base}/")
        return answer

    def _role(self, name: str, claimed: str) -> PersonRole | None:
        """Return the role of a person: what the file says now, else what the provider said when they signed in."""
        known = self.users.users().get(name) if self.users else None
        return known.role if known else PersonRole[claimed] if claimed else None

    @property
    def _redirect(self) -> str:
        return f"{self.home}{CALLBACK}"

    def _grounds(self) -> str:
        return f"oidc {self.client.issuer} {self.client.client}"

    def _cookie(self, state: str) -> str:
        """Return the name of a state's cookie: several pages may be on their way."""
        return f"{self.sessions.cookie}-{derived(self.sessions.key, f'oidc cookie {state}')[:12]}"

    def _nonce(self, state: str) -> str:
        return derived(self.sessions.key, f"oidc nonce {state}")

    def _verifier(self, state: str) -> str:
        return derived(self.sessions.key, f"oidc verifier {state}")

    def _seal(self, state: str, wanted: str, ends: str) -> str:
        return derived(self.sessions.key, f"oidc state {state} {wanted} {ends}")

    def _page(self, text: str, *, status: int) -> Response:
        return HTMLResponse(render(PACKAGE, "signed_out.html", base=self.sessions.base, text=text), status)
