"""Which lanes workers serve."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prefect.client.schemas.objects import WorkerStatus
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings

from leadline.evaluators.core import Lane
from leadline.flows.dispatch import pools
from leadline.flows.dispatch.lanes import NoWorkers
from leadline.flows.dispatch.pools import served
from leadline.flows.shared.settings import Dispatch


class Server:
    """A Prefect API with a deployment per lane that is named."""

    def __init__(self, **workers: int) -> None:
        self.workers = workers
        self.paused: set[str] = set()
        self.away = False

    def __enter__(self) -> Server:
        if self.away:
            raise RuntimeError("Failed to reach API at http://127.0.0.1:4200/api")
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def read_deployment_by_name(self, name: str) -> SimpleNamespace:
        lane = name.removeprefix("score-chunk/")
        if lane not in self.workers:
            raise ObjectNotFound(http_exc=httpx.HTTPError("404"))
        return SimpleNamespace(work_pool_name=f"pool-of-{lane}", paused=lane in self.paused)

    def read_work_pool(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(is_paused=name in self.paused)

    def read_workers_for_work_pool(self, name: str) -> list[SimpleNamespace]:
        online = self.workers[name.removeprefix("pool-of-")]
        return [SimpleNamespace(status=status) for status in [WorkerStatus.ONLINE] * online + [WorkerStatus.OFFLINE]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(cpu=2, judge=0)
    monkeypatch.setattr(pools, "get_client", lambda **_: server)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:4200/api"}):
        yield server


def test_auto_takes_the_workers_that_there_are(server: Server) -> None:
    lanes: list[Lane] = ["cpu", "gpu", "judge"]
    assert served(Dispatch.AUTO, lanes) == {"cpu": 2}
    assert served(Dispatch.AUTO, ["judge"]) == {}
    assert served(Dispatch.INLINE, lanes) == {}
    assert served(Dispatch.WORKERS, ["cpu"]) == {"cpu": 2}


@pytest.mark.parametrize(
    ("lane", "said"), [("judge", "no worker is online in the work pool 'pool-of-judge'"), ("gpu", "does not exist")]
)
def test_workers_that_are_missing_are_named_with_what_to_do(server: Server, lane: Lane, said: str) -> None:
    with pytest.raises(NoWorkers, match=said) as error:
        served(Dispatch.WORKERS, ["cpu", lane])
    assert f"leadline service worker --pool {lane}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("paused", ["cpu", "pool-of-cpu"], ids=["deployment", "pool"])
def test_what_is_paused_takes_no_chunks(server: Server, paused: str) -> None:
    server.paused.add(paused)
    assert served(Dispatch.AUTO, ["cpu"]) == {}
    with pytest.raises(NoWorkers, match="paused"):
        served(Dispatch.WORKERS, ["cpu"])


def test_an_api_that_does_not_answer_has_no_workers(server: Server) -> None:
    server.away = True
    assert served(Dispatch.AUTO, ["cpu"]) == {}
    with pytest.raises(NoWorkers, match="does not say"):
        served(Dispatch.WORKERS, ["cpu"])


def test_without_a_server_nobody_is_asked_for_workers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: Any) -> None:
        raise AssertionError("nobody is to be asked")

    monkeypatch.setattr(pools, "get_client", never)
    with temporary_settings({PREFECT_API_URL: None}):
        assert served(Dispatch.AUTO, ["cpu"]) == {}
        with pytest.raises(NoWorkers, match="no Prefect server"):
            served(Dispatch.WORKERS, ["cpu"])
