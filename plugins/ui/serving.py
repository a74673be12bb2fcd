"""Serving the workbench: who is let in, by which names, and where it listens."""

from __future__ import annotations

import getpass
import ipaddress
import os
import secrets
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import click

from leadline.evaluators.ground import ErrorCode, UsageError, remember_variable
from leadline.flows.command.session import say
from leadline.flows.prefect.report_links import ui_address
from leadline.plugins.http_server import listener, serve
from leadline.plugins.ui.access import AccessControl, Doorkeeper, TokenKeeper, Tries
from leadline.plugins.ui.app import workbench
from leadline.plugins.ui.audit import AuditLog
from leadline.plugins.ui.oidc import OidcClient, OidcKeeper
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.users import ProxyKeeper, Sessions, UserKeeper, add_user
from leadline.tasks.store.store import Store

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

Networks: TypeAlias = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


@dataclass(frozen=True, slots=True)
class Entrance:
    """The way in, as a command was told it.

    Attributes:
        token: The token that was given, or "" for one to be drawn; it also signs cookies.
        token_from: The environment variable that it came from.
        users: The file of users, if people sign in.
        proxy_header: The header in which a proxy names people, if one does.
        proxy_from: Addresses of that proxy.
        oidc: The provider at which people sign in, if they do.
    """

    token: str = field(repr=False)
    token_from: str
    users: Path | None
    proxy_header: str | None
    proxy_from: tuple[str, ...]
    oidc: OidcClient | None = None

    def doorkeeper(self, token: str, cookie: str, tries: Tries, home: str, *, secure: bool, base: str) -> Doorkeeper:
        """Return who lets people in: a provider, a proxy's header, a file of users, or the token.

        Args:
            home: Address at which browsers find this server.

        Raises:
            UsageError: The file cannot be read, or an address is invalid.
        """
        networks = _networks(self.proxy_from)
        known = UserKeeper(self.users, token, cookie, secure, base, tries) if self.users else None
        if known:
            known.users()  # a file that cannot be read is said at once
        if self.oidc:
            return OidcKeeper(self.oidc, Sessions(token, cookie, secure, base), home, known, tries)
        if self.proxy_header:
            return ProxyKeeper(self.proxy_header, networks, token, known)
        return known or TokenKeeper(token, cookie, secure, base, tries)

    def address(self, host: str, port: int, token: str) -> str:
        """Return the address to open, with the token where one is asked for; a given one is not shown."""
        known = self.users or self.proxy_header or self.oidc
        asks = "" if known else f"?token={f'${self.token_from}' if self.token else token}"
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/{asks}"


def client_of(
    issuer: str | None, client: str | None, secret_env: str, role_claim: str | None, name_claim: str, users: Path | None
) -> OidcClient | None:
    """Return this server as a provider knows it, ``None`` where nobody signs in at one.

    Args:
        secret_env: Environment variable with its secret there.

    Raises:
        UsageError: Something is missing: an id, who has which role, or the package that it needs.
    """
    if not issuer:
        return None
    if not client:
        raise UsageError("--oidc-issuer needs the id of this server there.", hint="Name it: --oidc-client ID",
                         code=ErrorCode.CONFIG_OPTION)  # fmt: skip
    if not users and not role_claim:
        raise UsageError(
            "Nobody has a role: the provider only says who somebody is.",
            hint="Name a file of roles (--users FILE), or the claim that has them (--oidc-role-claim NAME).",
            code=ErrorCode.CONFIG_OPTION,
        )
    if find_spec("authlib") is None:
        raise UsageError(
            "Signing in at a provider needs the package Authlib.",
            hint="Install the extra: pip install -c constraints.txt -e '.[oidc]'",
            code=ErrorCode.CONFIG_PACKAGE,
        )
    remember_variable(secret_env)
    return OidcClient(issuer, client, os.environ.get(secret_env, ""), role_claim, name_claim)


def serve_store(store: Store, host: str, ports: tuple[int, ...], entrance: Entrance) -> None:
    """Serve the workbench of a store until SIGTERM or Ctrl-C, and print its address.

    Args:
        host: Address of the interface.
        ports: The first of them that is free; 0 for any.

    Raises:
        LeadlineError: No port can be had.
    """
    public = urlsplit(ui_address())
    base, secure = public.path.rstrip("/"), public.scheme == "https"
    pages = workbench(store, os.environ.get("PREFECT_UI_URL", "").rstrip("/"), base)
    with listener(host, *ports) as listening:
        number = listening.getsockname()[1]
        token = entrance.token or secrets.token_urlsafe(24)
        tries = Tries(pages.state.audit.refuse)
        home = ui_address() or f"http://{f'[{host}]' if ':' in host else host}:{number}"
        doorkeeper = entrance.doorkeeper(token, f"leadline-ui-{number}", tries, home, secure=secure, base=base)
        loopback = host in ("127.0.0.1", "::1", "localhost")
        hosts = LOOPBACK | {name for name in (public.hostname,) if name} if loopback else None
        click.echo(entrance.address(host, number, token))
        say(f"Runs of {store.location}. Ctrl-C ends it.")
        try:
            serve(AccessControl(pages, doorkeeper, hosts), listening)
        except KeyboardInterrupt:  # uvicorn has ended its connections, and passes the signal on
            say("Ended.")


def _networks(given: tuple[str, ...]) -> Networks:
    try:
        return tuple(ipaddress.ip_network(one) for one in given)
    except ValueError as error:
        raise UsageError(
            f"--proxy-from: {error}.",
            hint="Write an address or a network, such as 10.0.0.0/8.",
            code=ErrorCode.CONFIG_OPTION,
        ) from error


def _user_here() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return str(os.getuid())


def write_user(store: Store, users: Path | None, name: str, role: str) -> None:
    """Ask for a password, and write a person to the file of users.

    Args:
        store: The store whose audit log says so.

    Raises:
        UsageError: There is no file, or the name or the password cannot be used.
    """
    if users is None:
        raise UsageError("--add-user writes to a file.", hint="Name it: --users FILE", code=ErrorCode.CONFIG_OPTION)
    password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    add_user(users, name, PersonRole[role.upper()], password)
    AuditLog(store).write("added a user", person=_user_here(), about={"user": name, "role": role, "file": users})
    say(f"{name} has the role {role} in {users}.")
