"""A storm of a registry's webhooks, with a receiver that is killed meanwhile: what is lost, and what is started twice.

Run: ``python -m benchmarks.webhook_load``, with PostgreSQL and Redis. Each delivery comes twice, as registries do, and
again after a refusal or a broken connection. The service has no workers, so that flow runs are made and not run.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import httpx

from benchmarks.machine import describe
from leadline.deployments.service import free_port
from tests.support.processes.service import LiveService, eventually, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET: Final = "a shared secret of the benchmark"
FLOW: Final = "on-model-version/collect-and-evaluate"
PATIENCE_S: Final = 900.0


@dataclass
class Receiver:
    """The webhook's server as a process that can be killed.

    Attributes:
        service: The service that it sends events to.
        port: Its port.
        kills: How often it was killed.
    """

    service: LiveService
    port: int = field(default_factory=lambda: free_port(0))
    kills: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        arguments = [
            "service",
            "webhook",
            "serve",
            "--models",
            str(self.service.folder / "webhook.json"),
            "--port",
            str(self.port),
        ]
        with (self.service.folder / "webhook.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leadline.cli.main", *arguments],
                env={**self.service.environment, "LEADLINE_WEBHOOK_SECRET": SECRET}, cwd=self.service.folder,
                stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """End it without a word, and start it again."""
        self.stop()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """End it without a word."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def waiting(self) -> int | None:
        """Return how many deliveries wait; ``None`` while it does not answer."""
        with suppress(httpx.HTTPError):
            reply = httpx.get(f"http://127.0.0.1:{self.port}/health", trust_env=False, timeout=10)
            return int(reply.json()["queued"])
        return None


@dataclass
class Registry:
    """What sends deliveries until they are taken.

    Attributes:
        port: Of the receiver.
        answers: Seconds that each answer of 202 took.
        statuses: Answers by status, and broken connections.
    """

    port: int
    answers: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def deliver(self, version: int) -> None:
        """Send one delivery; again after a refusal, as MLflow does."""
        body = {"entity": "model_version", "action": "created", "data": {"name": "pilot", "version": str(version)}}
        sent = json.dumps(body).encode()
        while True:
            began = time.monotonic()
            try:
                address = f"http://127.0.0.1:{self.port}/mlflow"
                reply = httpx.post(address, content=sent, headers=_signed(sent), trust_env=False, timeout=30)
                status = str(reply.status_code)
            except httpx.HTTPError as error:
                status = type(error).__name__
            with self._lock:
                self.statuses[status] += 1
                if status == "202":
                    self.answers.append(time.monotonic() - began)
            if status == "202":
                return
            time.sleep(1)


def _signed(body: bytes) -> dict[str, str]:
    delivery, at = str(uuid4()), str(int(time.time()))
    digest = hmac.new(SECRET.encode(), f"{delivery}.{at}.{body.decode()}".encode(), hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"X-MLflow-Delivery-Id": delivery, "X-MLflow-Timestamp": at, "X-MLflow-Signature": signature}


@contextmanager
def _service() -> Iterator[LiveService]:
    yield from serving({})


def _storm(registry: Registry, receiver: Receiver, minutes: float, rate: int, kills: int) -> int:
    """Deliver versions at a steady rate, each twice, with a kill now and then; return how many versions.

    Args:
        registry: What delivers.
        receiver: What receives.
        minutes: How long.
        rate: Versions a minute.
        kills: Kills of the receiver, at even distances.
    """
    total = round(minutes * rate)
    gap = 60 / rate
    moments = [round(total * (number + 1) / (kills + 1)) for number in range(kills)]
    began = time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        for number in range(total):
            time.sleep(max(0.0, began + number * gap - time.monotonic()))
            pool.submit(registry.deliver, number)
            pool.submit(registry.deliver, number)
            if number in moments:
                receiver.kill()
    return total


def _started(service: LiveService) -> Counter[str]:
    """Return how many flow runs each version has."""
    found: list[dict[str, Any]] = []
    while True:
        page = service.runs_of(FLOW, limit=200, offset=len(found))
        found += page
        if len(page) < 200:
            return Counter(run["parameters"]["config"]["version"] for run in found)


def main() -> int:
    """Print what became of the storm; returns 1 if something was lost or started twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=int, default=200, help="versions a minute; each is delivered twice")
    parser.add_argument("--kills", type=int, default=2, help="kills of the receiver")
    chosen = parser.parse_args()
    print(describe())
    with _service() as service:
        models = {"defaults": {"suite": "suite.json", "answers": "answers.json"}, "models": {"*": None}}
        (service.folder / "webhook.json").write_text(json.dumps(models), encoding="utf-8")
        receiver = Receiver(service)
        receiver.start()
        try:
            eventually(lambda: receiver.waiting() == 0, 120, "the receiver answers")
            registry = Registry(receiver.port)
            total = _storm(registry, receiver, chosen.minutes, chosen.rate, chosen.kills)
            sent = time.monotonic()
            eventually(lambda: receiver.waiting() == 0, PATIENCE_S, "everything is sent on")
            emptied = time.monotonic() - sent
            eventually(lambda: len(_started(service)) >= total, PATIENCE_S, "everything has started something")
            time.sleep(10)  # for what would come twice
            started = _started(service)
        finally:
            receiver.stop()
    answers = sorted(registry.answers)
    lost, twice = total - len(started), sum(count - 1 for count in started.values())
    print(f"{total} versions, each delivered twice, at {chosen.rate} a minute; receiver killed {receiver.kills} times")
    print(f"answers: {dict(registry.statuses)}")
    print(
        f"202 after {statistics.median(answers) * 1000:.0f} ms (median), "
        f"{answers[int(len(answers) * 0.95)] * 1000:.0f} ms (95 %), {answers[-1] * 1000:.0f} ms (longest)"
    )
    print(f"queue empty {emptied:.0f} s after the last delivery; flow runs {sum(started.values())}")
    print(f"lost {lost}, started twice {twice}: {'as wanted' if not lost and not twice else 'WRONG'}")
    return 1 if lost or twice else 0


if __name__ == "__main__":
    sys.exit(main())
