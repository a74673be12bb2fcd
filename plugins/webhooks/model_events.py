"""The event that a model has a new version: its payload, sending it, and deliveries on their way to become one.

A registry is answered as soon as its delivery is stored, so that neither a burst nor an outage of Prefect's server
loses one, whether or not the registry would deliver again. Equal deliveries are one file, and equal events are one to
Prefect's server, so whatever is sent again after a crash starts nothing twice. A delivery that cannot become an event
is set aside with the reason, so that somebody sees it and can send it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of, without_secrets
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.prefect.prefect_events import Sent, send_once
from leadline.tasks.ground.files import digest, state_folder, write_json

MODEL_VERSION_CREATED: Final = "leadline.model-version.created"
"""Its payload is the parameter ``config`` of the flow that it starts."""

_NOT_IDENTIFYING: Final = {"store", "output", "processes", "dispatch", "again"}
"""Fields that say how and where to run; they make no second evaluation of the same version."""


def read_payload(payload: Mapping[str, Any]) -> ModelVersionConfig:
    """Check a payload against the flow's parameter.

    Raises:
        UsageError: It does not fit; all faults are named.
    """
    try:
        return ModelVersionConfig.model_validate(dict(payload))
    except ValidationError as error:
        faults = refusals_of(error, ModelVersionConfig)
        raise UsageError(
            f"The payload does not fit the flow's parameters: {'; '.join(faults)}.",
            hint="The event was not sent.",
            code=ErrorCode.EVENT_PAYLOAD,
        ) from None


def send_model_version(config: ModelVersionConfig, *, again: bool = False, wait: float = 0.0) -> Sent:
    """Send the event, once for each model version, suite and configuration.

    Args:
        config: What the flow is to do.
        again: Send it even if it was sent before.
        wait: How many seconds to wait for the flow run that it starts.

    Raises:
        EventNotSent: It did not arrive, or nobody waits for it.
    """
    resource = {
        "prefect.resource.id": f"leadline.model.{config.model}",
        "prefect.resource.name": f"{config.model} {config.version}",
        "leadline.model": config.model,
        "leadline.version": config.version,
    }
    payload = config.model_dump(mode="json", exclude_unset=True)
    identity = config.model_dump(mode="json", exclude=_NOT_IDENTIFYING)
    return send_once(MODEL_VERSION_CREATED, resource, payload, identity, again=again or config.again, wait=wait)


MOST_REFUSED: Final = 200
"""Deliveries set aside that are kept; the oldest go."""

LONGEST: Final = 64 * 1024
ENDING: Final = ".refused"


@dataclass(frozen=True, slots=True)
class RefusedDelivery:
    """A delivery that was set aside.

    Attributes:
        when: When, as ISO 8601 in UTC.
        about: Model and version, as far as they are known.
        reason: Why.
        path: The file, whose ``payload`` can be sent once it is mended.
    """

    when: str
    about: str
    reason: str
    path: Path


def delivery_folder() -> Path:
    """Return the folder in which the webhook's deliveries wait."""
    return state_folder() / "webhook"


def set_aside(folder: Path, payload: Mapping[str, Any] | str, reason: str) -> None:
    """Keep a delivery with the reason; that this fails is only logged.

    Args:
        payload: The event's payload, or the text of a stored delivery that cannot be read.
        reason: Why it is no event.
    """
    content = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "reason": without_secrets(reason),
        "payload": payload if not isinstance(payload, str) else payload[:LONGEST],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(folder / f"{digest(content['payload'])}{ENDING}", content)
        for path in sorted(folder.glob(f"*{ENDING}"), key=_age)[:-MOST_REFUSED]:
            path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        _log.error("A delivery could not be set aside (%s): %s", error, reason)


def refusals(folder: Path, since: datetime) -> Iterator[RefusedDelivery]:
    """Yield what was set aside since a time, newest first.

    Args:
        since: The time.
    """
    for path in sorted(folder.glob(f"*{ENDING}"), key=_age, reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if datetime.fromisoformat(found["when"]) >= since:
                payload = found["payload"]
                known = payload if isinstance(payload, dict) else {}
                about = f"{known.get('model', '?')} {known.get('version', '')}".strip()
                yield RefusedDelivery(str(found["when"]), about, str(found["reason"]), path)


AT_ONCE: Final = 4
"""Events sent at the same time."""

MOST_WAITING: Final = 1000
"""Deliveries that may wait; a registry is asked to come again with more."""

RETRY_S: Final = 15.0
"""Pause between two attempts to send what could not be sent."""

GIVE_UP_S: Final = 7 * 24 * 3600.0
"""How long sending is tried, before a delivery is set aside."""

Send: TypeAlias = Callable[[ModelVersionConfig], Sent]

_log = logging.getLogger("leadline.webhook")


class QueueFull(Exception):
    """So many deliveries wait that no further one is taken."""


class _SetAside(Exception):
    """A stored delivery cannot be read."""


class DeliveryQueue:
    """Deliveries in a folder, sent by a few threads; those that an earlier process left there too.

    Args:
        folder: Where they wait; it is made.
        send: Sends an event; may be called again for the same one.
    """

    def __init__(self, folder: Path, send: Send) -> None:
        self._folder, self._send = folder, send
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="leadline-webhook")
        self._sending: dict[str, Future[Sent]] = {}
        self._lock, self._ended = Lock(), Event()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        Thread(target=self._keep_trying, name="leadline-webhook-retry", daemon=True).start()

    def put(self, config: ModelVersionConfig) -> Future[Sent]:
        """Store a delivery, and begin to send it.

        Raises:
            QueueFull: Too many wait already.
            OSError: It cannot be stored.
        """
        text = json.dumps(config.model_dump(mode="json", exclude_unset=True), sort_keys=True)
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
        with self._lock:
            if name not in self._sending:
                if len(self) >= MOST_WAITING and not (self._folder / name).exists():
                    raise QueueFull(f"{MOST_WAITING:,} deliveries wait already.")
                _store(self._folder / name, text)
            return self._begin(name)

    def __len__(self) -> int:
        """Return how many deliveries wait."""
        return sum(1 for _ in self._folder.glob("*.json"))

    def close(self) -> None:
        """Take no further one up; what waits stays on disk."""
        with self._lock:
            self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, name: str) -> Future[Sent]:
        if name not in self._sending:
            if self._ended.is_set():
                ended: Future[Sent] = Future()
                ended.cancel()
                return ended
            self._sending[name] = self._pool.submit(self._deliver, self._folder / name)
        return self._sending[name]

    def _deliver(self, path: Path) -> Sent:
        try:
            config = self._read(path)
            sent = self._send(config)
            path.unlink(missing_ok=True)
        except _SetAside:
            raise
        except Exception as error:  # whatever it is that the server or the way to it has
            if time.time() - _age(path) > GIVE_UP_S and path.exists():
                self._set_aside(path, f"It could not be sent for days: {type(error).__name__}: {error}")
            _log.warning("%s is not sent yet: %s: %s", path.name, type(error).__name__, error)
            raise
        finally:
            with self._lock:
                self._sending.pop(path.name, None)
        known = "" if sent.new else " (known)"
        _log.info("%s %s, event %s%s", config.model, config.version, sent.id, known)
        return sent

    def _read(self, path: Path) -> ModelVersionConfig:
        try:
            return read_payload(json.loads(path.read_text(encoding="utf-8")))
        except (UsageError, ValueError) as error:  # of an older version, or cut off
            self._set_aside(path, str(error))
            raise _SetAside from error

    def _set_aside(self, path: Path, reason: str) -> None:
        _log.error("%s cannot be sent and is set aside: %s", path.name, reason)
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            loaded = json.loads(text)
        except ValueError:
            loaded = None
        set_aside(self._folder, loaded if isinstance(loaded, dict) else text, reason)
        path.unlink(missing_ok=True)

    def _keep_trying(self) -> None:
        while True:
            with self._lock:
                for path in sorted(self._folder.glob("*.json"), key=_age):
                    if self._ended.is_set():
                        return
                    self._begin(path.name)
            if self._ended.wait(RETRY_S):
                return


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed or sent in the meantime
        return 0.0


def _store(path: Path, text: str) -> None:
    """Write a file so that it is there in full, or not at all, also after a power cut."""
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
