"""People with names and roles: a file of hashed passwords, or the header of a proxy that knows them."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.http_server import same
from leadline.plugins.ui.access import COOKIE_S, WAIT, Tries, derived, own_path, set_cookie
from leadline.plugins.ui.site import PACKAGE, Person, PersonRole, read_body
from leadline.tasks.ground.files import replacing
from leadline.tasks.ground.templating import render

LOGIN: Final = "/login"
LEAST_PASSWORD: Final = 10
MOST_PASSWORD: Final = 200
_COST: Final = 2**14
"""Scrypt's cost N, with r = 8 and p = 1: 16 MiB and some 50 ms a try (RFC 7914)."""

NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f\"'<>\\,;:|=\[\]]{1,64}")


@dataclass(frozen=True, slots=True)
class User:
    """A person of the file of users.

    Attributes:
        password: ``scrypt$N$SALT$HASH``; "" for one whom only a proxy lets in.
    """

    role: PersonRole
    password: str = field(default="", repr=False)


def hashed(password: str, salt: bytes | None = None, cost: int = _COST) -> str:
    """Return a password as the file holds it."""
    salt = os.urandom(16) if salt is None else salt
    found = hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt, n=cost, r=8, p=1, maxmem=2**26)
    return f"scrypt${cost}${base64.b64encode(salt).decode()}${base64.b64encode(found).decode()}"


def fits(password: str, kept: str) -> bool:
    """Return whether a password is the one that the file holds."""
    try:
        kind, cost, salt, _ = kept.split("$")
        return kind == "scrypt" and same(hashed(password, base64.b64decode(salt), int(cost)), kept)
    except ValueError:
        return False


def read_users(path: Path) -> dict[str, User]:
    """Return the people of a file.

    Raises:
        UsageError: It cannot be read, or names no role or no such role.
    """
    try:
        lines = tomllib.loads(path.read_text(encoding="utf-8"))["users"]
        return {
            name: User(PersonRole[str(line["role"]).upper()], str(line.get("password", "")))
            for name, line in lines.items()
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise UsageError(
            f"The file of users {path} cannot be read: {type(error).__name__}: {error}.",
            hint='Each has a table [users.NAME] with role = "viewer", "labeller" or "editor". Add one: --add-user NAME',
            code=ErrorCode.CONFIG_FILE,
        ) from error


def add_user(path: Path, name: str, role: PersonRole, password: str) -> None:
    """Write a person to a file that only its owner reads; one of the same name is replaced.

    Raises:
        UsageError: The name or the password cannot be used.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a user's name.",
            hint="Take letters, digits, dots, dashes or @.",
            code=ErrorCode.CONFIG_OPTION,
        )
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise UsageError(
            f"A password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters.", code=ErrorCode.CONFIG_OPTION
        )
    users = read_users(path) if path.exists() else {}
    users[name] = User(role, hashed(password))
    text = "".join(
        f'[users."{name}"]\nrole = "{user.role.name.lower()}"\npassword = "{user.password}"\n\n'
        for name, user in sorted(users.items())
    )
    with replacing(path) as draft:
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Sessions:
    """Sessions of people who signed in: cookies that this server signed.

    One has the name, when it ends, the role if no file says it, and a seal that breaks when its grounds change, such
    as a password.

    Attributes:
        key: Secret that cookies are signed with.
        cookie: Name of the cookie.
        secure: Whether browsers reach the page by HTTPS only.
        base: Path below which browsers find it.
    """

    key: str = field(repr=False)
    cookie: str = "leadline-ui"
    secure: bool = False
    base: str = ""

    def begin(
        self, answer: Response, request: Request, name: str, role: str, grounds: str, seconds: int = COOKIE_S
    ) -> None:
        """Let somebody in.

        Args:
            role: Name of a role, or "" where a file says it.
            grounds: What the session rests on.
            seconds: Time until it ends.
        """
        ends = str(int(time.time()) + seconds)
        self.set(answer, request, f"{name}|{ends}|{role}|{self._seal(name, ends, role, grounds)}", seconds)

    def set(self, answer: Response, request: Request, value: str, seconds: int, *, name: str = "") -> None:
        """Set a cookie; without a name, that of the session."""
        set_cookie(
            answer, request, name or self.cookie, value, secure=self.secure, base=self.base, seconds=seconds
        )  # fmt: skip

    def read(self, request: Request, grounds: Callable[[str, str], str | None]) -> tuple[str, str] | None:
        """Return the name and the role of whose session it is.

        Args:
            grounds: Returns what a session of a name and role rests on now, ``None`` for nothing.
        """
        parts = request.cookies.get(self.cookie, "").split("|")
        if len(parts) != 4 or not parts[1].isdecimal() or int(parts[1]) < time.time():
            return None
        name, ends, role, seal = parts
        found = grounds(name, role)
        return (name, role) if found is not None and same(seal, self._seal(name, ends, role, found)) else None

    def _seal(self, name: str, ends: str, role: str, grounds: str) -> str:
        return derived(self.key, f"session {name} {ends} {role} {grounds}")


@dataclass(frozen=True)
class UserKeeper:
    """Lets in the people of a file, who sign in with their passwords; whom the file no longer names is out at once.

    A new password ends that person's sessions.

    Attributes:
        path: The file of users.
        key: Secret that cookies are signed with.
        cookie: Name of the cookie.
        secure: Whether browsers reach the page by HTTPS only.
        base: Path below which browsers find it.
    """

    path: Path
    key: str = field(repr=False)
    cookie: str = "leadline-ui"
    secure: bool = False
    base: str = ""
    tries: Tries = field(default_factory=Tries)
    _read: dict[int, Mapping[str, User]] = field(default_factory=dict, repr=False)

    def person(self, request: Request) -> Person | None:
        """Return the person whose session it is; nobody on the way in or out."""
        if request.scope["path"] == LOGIN:
            return None
        found = self._sessions.read(request, self._password)
        return self._known(found[0], self.users()[found[0]]) if found else None

    def users(self) -> Mapping[str, User]:
        """Return the people of the file as it is now.

        Raises:
            UsageError: It cannot be read.
        """
        try:
            changed = self.path.stat().st_mtime_ns
        except OSError:
            changed = 0
        if changed not in self._read:
            self._read.clear()
            self._read[changed] = read_users(self.path)
        return self._read[changed]

    async def entrance(self, request: Request) -> Response:
        """Take a name and a password, or ask for them; sign out who asks for that page while signed in."""
        if request.method != "POST":
            wanted = "" if request.scope["path"] == LOGIN else request.scope["path"]
            answer: Response = self._form(wanted, status=401)
            answer.delete_cookie(self.cookie, path=f"{self.base}/")
            return answer
        if self.tries.must_wait(request):
            return self._form("", status=429, wrong=WAIT)
        form = dict(parse_qsl(await read_body(request)))
        name, wanted = form.get("name", ""), form.get("wanted", "")
        user = self.users().get(name)
        right = await run_in_threadpool(
            fits, form.get("password", "")[:MOST_PASSWORD], user.password if user else _NOBODY
        )
        if user is None or not right:
            self.tries.wrong(request, name if user else "")
            return self._form(wanted, status=401, wrong="That name and password do not go together.")
        answer = RedirectResponse(own_path(wanted, self.base), 303)
        self._sessions.begin(answer, request, name, "", user.password)
        return answer

    @property
    def _sessions(self) -> Sessions:
        return Sessions(self.key, self.cookie, self.secure, self.base)

    def _password(self, name: str, role: str) -> str | None:
        user = self.users().get(name)
        return user.password if user and not role else None

    def _known(self, name: str, user: User) -> Person:
        return Person(name, user.role, derived(self.key, f"form {name} {user.password}"), signs_in=True)

    def _form(self, wanted: str, *, status: int, wrong: str = "") -> Response:
        return HTMLResponse(render(PACKAGE, "login.html", base=self.base, wanted=wanted, wrong=wrong), status)


_NOBODY: Final = f"scrypt${_COST}$AAAAAAAAAAAAAAAAAAAAAA==$"
"""What a password of nobody is compared with, so that the time does not tell which names there are."""


@dataclass(frozen=True)
class ProxyKeeper:
    """Lets in whom a proxy names in a header; a header from any other address says nothing.

    Attributes:
        header: The header's name, such as ``X-Forwarded-User``.
        networks: Addresses of the proxy.
        key: Secret that forms are signed with.
        users: The file with the roles, or ``None``; who is not in it may look.
    """

    header: str
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    key: str = field(repr=False)
    users: UserKeeper | None = None

    def person(self, request: Request) -> Person | None:
        """Return the person whom the proxy names."""
        name = request.headers.get(self.header, "")
        if not NAME.fullmatch(name) or not self._from_proxy(request):
            return None
        known = self.users.users().get(name) if self.users else None
        return Person(name, known.role if known else PersonRole.VIEWER, derived(self.key, f"form {name}"))

    async def entrance(self, request: Request) -> Response:
        """Refuse whom the proxy does not name."""
        del request
        return Response("Sign in at the proxy: it did not say who you are.", 401)

    def _from_proxy(self, request: Request) -> bool:
        try:
            address = ipaddress.ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(address in network for network in self.networks)
