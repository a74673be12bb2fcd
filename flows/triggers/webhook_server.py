"""The HTTP server that turns a registry's webhook into the event of a new model version.

It answers 202 only when the event has arrived at Prefect's server, so that a registry that gets any other status can
deliver again: MLflow does so on 429 and 5xx.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.flows.model_version.config import ModelVersionConfig
from leadline.flows.triggers.model_events import read_payload, send_model_version
from leadline.flows.triggers.prefect_events import Sent
from leadline.flows.triggers.webhook_payloads import (
    Ignored,
    ModelChoice,
    ModelVersion,
    NotAuthentic,
    NotUnderstood,
    check_huggingface,
    check_mlflow,
    of_huggingface,
    of_mlflow,
)

MAX_BODY: Final = 64 * 1024
BODY_S: Final = 10.0
SEND_S: Final = 40.0
IN_WORK: Final = 8
"""Deliveries that are passed on at once; more are asked to come again."""

Send: TypeAlias = Callable[[ModelVersionConfig], Sent]

_log = logging.getLogger("leadline.webhook")


class _Refused(Exception):
    """A delivery is answered with an error."""

    def __init__(self, status: int, reason: str | LeadlineError) -> None:
        super().__init__(f"[{reason.code}] {reason}" if isinstance(reason, LeadlineError) else reason)
        self.status = status


@dataclass(frozen=True)
class Webhook:
    """Configuration of the server.

    Attributes:
        secret: Shared with the registries.
        choice: Which models are evaluated, and how.
        refs: Branches and tags of Hugging Face's repositories that count.
        send: Sends the event; replaced in tests.
    """

    secret: str = field(repr=False)
    choice: ModelChoice
    refs: tuple[str, ...] = ("refs/heads/main",)
    send: Send = send_model_version

    def app(self) -> Starlette:
        """Return the application: ``POST /mlflow``, ``POST /huggingface`` and ``GET /health``."""
        slots = asyncio.Semaphore(IN_WORK)
        routes = [
            Route(f"/{registry}", partial(self._answer, registry, slots), methods=["POST"])
            for registry in ("mlflow", "huggingface")
        ]
        return Starlette(routes=[*routes, Route("/health", _health)])

    async def _answer(self, registry: str, slots: asyncio.Semaphore, request: Request) -> JSONResponse:
        try:
            body = await _body(request)
            found = self._read(registry, request.headers, body)
            if isinstance(found, Ignored):
                _log.info("%s: ignored, %s", registry, found.reason)
                return JSONResponse({"ignored": found.reason})
            if slots.locked():
                raise _Refused(503, "Too many deliveries at once.")
            async with slots:
                return await self._pass_on(registry, found)
        except _Refused as refusal:
            _log.warning("%s: %d, %s", registry, refusal.status, refusal)
            headers = {"Retry-After": "10"} if refusal.status == 503 else None
            return JSONResponse({"error": str(refusal)}, refusal.status, headers=headers)

    def _read(self, registry: str, headers: Mapping[str, str], body: bytes) -> ModelVersion | Ignored:
        """Check who sent a delivery before anything of it is read."""
        try:
            if registry == "mlflow":
                check_mlflow(self.secret, headers, body)
                return of_mlflow(_object(body))
            check_huggingface(self.secret, headers)
            return of_huggingface(_object(body), self.refs)
        except NotAuthentic as error:
            raise _Refused(401, error) from None
        except NotUnderstood as error:
            raise _Refused(400, error) from None

    async def _pass_on(self, registry: str, found: ModelVersion) -> JSONResponse:
        payload = self.choice.payload(found)
        if payload is None:
            _log.info("%s: ignored, nobody asked for %r", registry, found.name[:200])
            return JSONResponse({"ignored": "nobody asked for this model"})
        try:
            config = read_payload(payload)
            async with asyncio.timeout(SEND_S):
                sent = await asyncio.to_thread(self.send, config)
        except UsageError as error:
            raise _Refused(422, error) from None
        except LeadlineError as error:
            raise _Refused(503, error) from None
        except TimeoutError as error:
            raise _Refused(503, str(error) or "Prefect's server is too slow.") from None
        _log.info(
            "%s: %s %s, event %s%s", registry, config.model, config.version, sent.id, "" if sent.new else " (known)"
        )
        return JSONResponse({"event": str(sent.id), "new": sent.new}, 202)


async def _body(request: Request) -> bytes:
    """Read a body of bounded size in bounded time."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    raise _Refused(413, f"A delivery has at most {MAX_BODY // 1024} KiB.")
    except TimeoutError:
        raise _Refused(408, "The delivery came too slowly.") from None
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(body)
    except (ValueError, RecursionError):
        raise NotUnderstood("The delivery is no JSON.") from None
    if not isinstance(loaded, dict):
        raise NotUnderstood("The delivery is no JSON object.")
    return loaded


async def _health(request: Request) -> JSONResponse:
    del request
    return JSONResponse({"ok": True})


def serve(webhook: Webhook, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        webhook: Configuration of the server.
        host: Interface to listen on.
        port: Port to listen on.

    Raises:
        LeadlineError: The port cannot be had.
    """
    import uvicorn

    config = uvicorn.Config(
        webhook.app(), host=host, port=port, log_level="warning", access_log=False, limit_concurrency=64,
        timeout_keep_alive=5, timeout_graceful_shutdown=10, server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    try:
        server.run()
    except SystemExit:
        if not server.started:
            raise LeadlineError(
                f"Port {port} of {host} cannot be used.",
                hint="Choose another: --port N",
                code=ErrorCode.SERVER_PORT,
            ) from None
        raise
