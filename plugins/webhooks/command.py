"""``leadline service webhook``: a server that turns a model registry's webhooks into events."""

from __future__ import annotations

import os
from pathlib import Path

import click

from leadline.evaluators.ground import ErrorCode, UsageError, remember_variable
from leadline.flows.command.session import say, session_options
from leadline.flows.prefect.server import lasting_api
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins import http_server


@click.group()
@session_options
def webhook() -> None:
    """Turn a registry's webhooks into events of new model versions."""


@webhook.command()
@click.option(
    "--models",
    "models",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File (YAML or JSON): which models are evaluated, with which suite.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8484, show_default=True, help="Port to listen on.")
@click.option(
    "--secret-env",
    default="LEADLINE_WEBHOOK_SECRET",
    show_default=True,
    metavar="NAME",
    help="Environment variable with the secret.",
)
@click.option(
    "--ref",
    "refs",
    multiple=True,
    default=("refs/heads/main",),
    show_default=True,
    metavar="REF",
    help="Branch or tag of a Hugging Face repository that counts; may hold *; repeatable.",
)
@session_options
def serve(models: Path, host: str, port: int, secret_env: str, refs: tuple[str, ...]) -> None:
    """Receive the webhooks of MLflow and of Hugging Face.

    These send to /mlflow and to /huggingface. A delivery is answered with 202 once it is stored, and its event is sent
    until it has arrived at the Prefect server.
    """
    remember_variable(secret_env)
    secret = os.environ.get(secret_env, "")
    if len(secret) < 8:
        raise UsageError(
            f"{secret_env} must hold a secret of at least 8 characters.",
            hint="It is the one that the registry knows.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    from leadline.plugins.webhooks import webhook_payloads, webhook_server  # Prefect takes more than a second

    choice = webhook_payloads.read_choice(models)
    log_to_stderr("leadline.webhook")
    with lasting_api() as api, http_server.listener(host, port) as listening:
        say(f"Listening on http://{host}:{port}/mlflow and /huggingface, for {api.url.removesuffix('/api')}.")
        http_server.serve(webhook_server.Webhook(secret, choice, refs=refs).app(), listening)
