"""The HTTP server that turns a registry's webhook into the event of a new model version.

It answers 202 once the delivery is stored (:mod:`.model_events`), so that a registry that gets any other status can
deliver again: MLflow does so on 429 and 5xx.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.plugins.ops.telemetry.exporter import metrics_route, text_of
from leadline.plugins.ops.telemetry.families import DELIVERIES, OF_THE_WEBHOOK, QUEUED, Figures
from leadline.plugins.webhooks.model_events import (
    DeliveryQueue,
    QueueFull,
    Send,
    delivery_folder,
    read_payload,
    send_model_version,
    set_aside,
)
from leadline.plugins.webhooks.webhook_payloads import (
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
        folder: Where deliveries wait; by default in the user's folder of states.
        refs: Branches and tags of Hugging Face's repositories that count.
        send: Sends the event; replaced in tests.
        answered: How many deliveries got which answer, by registry and status.
    """

    secret: str = field(repr=False)
    choice: ModelChoice
    folder: Path | None = None
    refs: tuple[str, ...] = ("refs/heads/main",)
    send: Send = send_model_version
    answered: Counter[tuple[str, int]] = field(default_factory=Counter, repr=False)

    def app(self) -> Starlette:
        """Return the application: ``POST /mlflow`` and ``/huggingface``, ``GET /health`` and ``/metrics``."""
        queue = DeliveryQueue(self.folder or delivery_folder(), self.send)
        routes = [
            Route(f"/{registry}", partial(self._answer, registry, queue), methods=["POST"])
            for registry in ("mlflow", "huggingface")
        ]

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            del app
            yield
            queue.close()

        routes += [Route("/health", partial(_health, queue)), metrics_route(lambda: self._metrics(queue))]
        return Starlette(routes=routes, lifespan=lifespan)

    def _metrics(self, queue: DeliveryQueue) -> bytes:
        """Return how many deliveries came, by their answers, and how many wait, in Prometheus' text format."""
        figures = Figures()
        for (registry, status), count in sorted(self.answered.items()):
            figures.put(DELIVERIES, count, registry, str(status))
        figures.put(QUEUED, len(queue))
        return text_of(OF_THE_WEBHOOK, figures)

    async def _answer(self, registry: str, queue: DeliveryQueue, request: Request) -> JSONResponse:
        reply = await self._reply(registry, queue, request)
        self.answered[registry, reply.status_code] += 1
        return reply

    async def _reply(self, registry: str, queue: DeliveryQueue, request: Request) -> JSONResponse:
        try:
            body = await _body(request)
            found = self._read(registry, request.headers, body)
            if isinstance(found, Ignored):
                _log.info("%s: ignored, %s", registry, found.reason)
                return JSONResponse({"ignored": found.reason})
            return await self._pass_on(registry, found, queue)
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

    async def _pass_on(self, registry: str, found: ModelVersion, queue: DeliveryQueue) -> JSONResponse:
        payload = self.choice.payload(found)
        if payload is None:
            _log.info("%s: ignored, nobody asked for %r", registry, found.name[:200])
            return JSONResponse({"ignored": "nobody asked for this model"})
        try:
            config = read_payload(payload)
            await asyncio.to_thread(queue.put, config)
        except UsageError as error:  # of webhook.yaml, so that the registry cannot mend it
            await asyncio.to_thread(set_aside, self.folder or delivery_folder(), payload, str(error))
            raise _Refused(422, error) from None
        except QueueFull as error:
            raise _Refused(503, str(error)) from None
        except OSError as error:
            raise _Refused(503, f"The delivery cannot be stored: {error.strerror}.") from None
        _log.info("%s: %s %s is stored", registry, config.model, config.version)
        return JSONResponse({"stored": f"{config.model} {config.version}"}, 202)


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
    except ClientDisconnect:
        raise _Refused(400, "The sender went away before its delivery was complete.") from None
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(body)
        json.dumps(loaded, ensure_ascii=False).encode()  # half a character, "\ud800", cannot be answered or sent on
    except (ValueError, RecursionError):
        raise NotUnderstood("The delivery is no JSON of whole characters.") from None
    if not isinstance(loaded, dict):
        raise NotUnderstood("The delivery is no JSON object.")
    return loaded


async def _health(queue: DeliveryQueue, request: Request) -> JSONResponse:
    del request
    return JSONResponse({"ok": True, "queued": len(queue)})
