"""``leadline ui``: the workbench of a store, in a browser."""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from leadline.evaluators.ground import UsageError
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.prefect.report_links import ui_address
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.http_server import listener, serve, token_in

if TYPE_CHECKING:
    from leadline.plugins.ui.access import Doorkeeper

PORT: Final = 8585
ROLES: Final = ("viewer", "labeller", "editor")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.  [default: 8585, or a free one]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--token-env",
    default="LEADLINE_UI_TOKEN",
    show_default=True,
    metavar="NAME",
    help="Environment variable with the token; without one it is drawn.",
)
@click.option(
    "--users", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File of people with roles and hashed passwords, who sign in by name instead of by the token.",
)  # fmt: skip
@click.option(
    "--add-user", metavar="NAME", help="Ask for a password, write this person to the file of --users, and end."
)
@click.option("--role", type=click.Choice(ROLES), default="labeller", show_default=True, help="Role for --add-user.")
@click.option("--proxy-header", metavar="NAME", help="Header in which a proxy says who asks, such as X-Forwarded-User.")
@click.option(
    "--proxy-from", multiple=True, metavar="NETWORK", default=("127.0.0.0/8", "::1/128"), show_default=True,
    help="Addresses of that proxy.",
)  # fmt: skip
@session_options
@click.pass_obj
def ui(
    session: Session, port: int | None, host: str, token_env: str, users: Path | None, add_user: str | None, role: str,
    proxy_header: str | None, proxy_from: tuple[str, ...],
) -> None:  # fmt: skip
    """Look at the store in a browser: runs, cases, comparisons, trends, labels.

    The address that it prints holds a token, which the browser keeps as a cookie; whoever has it may do everything.
    With --users people sign in: a viewer looks, a labeller labels, an editor starts work.
    """
    from leadline.plugins.ui.access import AccessControl
    from leadline.plugins.ui.app import workbench

    if add_user:
        _add_user(users, add_user, role)
        return
    log_to_stderr("leadline.ui")
    given = token_in(token_env)
    store = session.open_store()
    public = urlsplit(ui_address())
    base, secure = public.path.rstrip("/"), public.scheme == "https"
    networks = _networks(proxy_from)
    pages = workbench(store, os.environ.get("PREFECT_UI_URL", "").rstrip("/"), base)
    with listener(host, *((PORT, 0) if port is None else (port,))) as listening:
        number = listening.getsockname()[1]
        token = given or secrets.token_urlsafe(24)
        doorkeeper = _doorkeeper(token, users, proxy_header, networks, f"leadline-ui-{number}", secure, base)
        loopback = host in ("127.0.0.1", "::1", "localhost")
        hosts = _LOOPBACK | {name for name in (public.hostname,) if name} if loopback else None
        shown = f"[{host}]" if ":" in host else host
        asks = "" if users or proxy_header else f"?token={f'${token_env}' if given else token}"
        click.echo(f"http://{shown}:{number}/{asks}")
        say(f"Runs of {store.location}. Ctrl-C ends it.")
        try:
            serve(AccessControl(pages, doorkeeper, hosts), listening)
        except KeyboardInterrupt:  # uvicorn has ended its connections, and passes the signal on
            say("Ended.")


Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def _doorkeeper(
    key: str, users: Path | None, header: str | None, networks: Networks, cookie: str, secure: bool, base: str
) -> Doorkeeper:
    """Return who lets people in: a proxy's header, a file of users, or the token."""
    from leadline.plugins.ui.access import TokenKeeper
    from leadline.plugins.ui.users import ProxyKeeper, UserKeeper

    known = UserKeeper(users, key, cookie, secure, base) if users else None
    if known:
        known.users()  # a file that cannot be read is said at once
    if header:
        return ProxyKeeper(header, networks, key, known)
    return known or TokenKeeper(key, cookie, secure, base)


def _networks(given: tuple[str, ...]) -> Networks:
    try:
        return tuple(ipaddress.ip_network(one) for one in given)
    except ValueError as error:
        raise UsageError(
            f"--proxy-from: {error}.", hint="Write an address or a network, such as 10.0.0.0/8."
        ) from error


def _add_user(users: Path | None, name: str, role: str) -> None:
    from leadline.plugins.ui.site import PersonRole
    from leadline.plugins.ui.users import add_user

    if users is None:
        raise UsageError("--add-user writes to a file.", hint="Name it: --users FILE")
    password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    add_user(users, name, PersonRole[role.upper()], password)
    say(f"{name} is a {role} in {users}.")
