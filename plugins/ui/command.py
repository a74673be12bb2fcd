"""``leadline ui``: the workbench of a store, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from leadline.flows.command.session import Session, session_options
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.http_server import token_in

PORT: Final = 8585
ROLES: Final = ("viewer", "labeller", "editor")


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
    "--users", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", envvar="LEADLINE_UI_USERS",
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
@click.option(
    "--oidc-issuer", metavar="URL", envvar="LEADLINE_OIDC_ISSUER",
    help="OpenID Connect provider at which people sign in.",
)  # fmt: skip
@click.option("--oidc-client", metavar="ID", envvar="LEADLINE_OIDC_CLIENT", help="The id that this server has there.")
@click.option(
    "--oidc-secret-env", default="LEADLINE_OIDC_SECRET", show_default=True, metavar="NAME",
    help="Environment variable with its secret there; a public client has none.",
)  # fmt: skip
@click.option(
    "--oidc-role-claim", metavar="NAME", envvar="LEADLINE_OIDC_ROLE_CLAIM",
    help="Claim with people's roles, such as groups: viewer, labeller, editor, or leadline-editor and so on.",
)  # fmt: skip
@click.option(
    "--oidc-name-claim", default="email", show_default=True, metavar="NAME", envvar="LEADLINE_OIDC_NAME_CLAIM",
    help="Claim with the name under which people are known, here and in --users; an email must be verified.",
)  # fmt: skip
@session_options
@click.pass_obj
def ui(
    session: Session, port: int | None, host: str, token_env: str, users: Path | None, add_user: str | None, role: str,
    proxy_header: str | None, proxy_from: tuple[str, ...], oidc_issuer: str | None, oidc_client: str | None,
    oidc_secret_env: str, oidc_role_claim: str | None, oidc_name_claim: str,
) -> None:  # fmt: skip
    """Show the store in a browser: runs, cases, trends, labels and more.

    The address that it prints holds a token, which the browser keeps as a cookie; whoever has it may do everything.
    With --users people sign in: a viewer looks, a labeller labels, an editor starts work.
    """
    from leadline.plugins.ui.serving import Entrance, client_of, serve_store, write_user

    if add_user:
        write_user(session.open_store(), users, add_user, role)
        return
    log_to_stderr("leadline.ui")
    oidc = client_of(oidc_issuer, oidc_client, oidc_secret_env, oidc_role_claim, oidc_name_claim, users)
    entrance = Entrance(token_in(token_env), token_env, users, proxy_header, proxy_from, oidc)
    serve_store(session.open_store(), host, (PORT, 0) if port is None else (port,), entrance)
