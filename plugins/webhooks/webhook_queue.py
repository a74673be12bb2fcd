"""Deliveries of registries that are to become events: on disk until the event has arrived at Prefect's server.

A registry is answered as soon as its delivery is stored, so that neither a burst nor an outage of Prefect's server
loses one, whether or not the registry would deliver again. Equal deliveries are one file, and equal events are one to
Prefect's server, so whatever is sent again after a crash starts nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, TypeAlias

from leadline.evaluators.ground import UsageError
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.prefect.prefect_events import Sent
from leadline.plugins.webhooks.model_events import read_payload
from leadline.plugins.webhooks.set_aside import set_aside

AT_ONCE: Final = 4
"""Events sent at the same time."""

MOST: Final = 1000
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
                if len(self) >= MOST and not (self._folder / name).exists():
                    raise QueueFull(f"{MOST:,} deliveries wait already.")
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
    except OSError:  # sent in the meantime
        return 0.0


def _store(path: Path, text: str) -> None:
    """Write a file so that it is there in full, or not at all, also after a power cut."""
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
