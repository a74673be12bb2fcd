"""PostgreSQL and Redis are killed below a running service: runs end, and nothing is asked or computed twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from leadline.deployments.service import running
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.service import LiveService
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.service, pytest.mark.timeout(400)]

ROWS = 80


@pytest.fixture
def endpoint(service: LiveService) -> Iterator[JudgeEndpoint]:
    """A judge that the worker's own file names."""
    file = service.folder / "leadline.toml"
    with serving(JudgeEndpoint(passing(1.0), latency=1.0)) as endpoint:
        file.write_text(endpoint.toml("own", max_in_flight=4, start_in_flight=4))
        yield endpoint
        file.unlink()


def kill(service: LiveService, part: str) -> None:
    """``kill -9`` a part, and see that it was there."""
    os.kill((running(service.folder) or {})["parts"][part], signal.SIGKILL)


def outlasting(service: LiveService, run: str) -> dict[str, Any]:
    """Wait until a flow run has ended, also while the server has no database, and return it."""

    def done() -> dict[str, Any] | None:
        with suppress(httpx.HTTPError):
            found = service.get(f"/flow_runs/{run}")
            return found if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None
        return None

    return eventually(done, 240, "the run ended")


def test_runs_outlive_a_killed_redis_and_a_killed_postgresql_and_repeat_nothing(
    service: LiveService, endpoint: JudgeEndpoint
) -> None:
    write_berths(service.folder / "rows.jsonl", ROWS)
    config = {"dataset": "rows.jsonl", "evaluators": ["databricks.relevance_to_query"], "dispatch": "inline"}
    deployment = service.deployment("evaluate/evaluate")["id"]
    before = {run.id for run in Store.open(service.environment["LEADLINE_STORE"]).runs()}
    run = service.post(f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})
    for part, after in (("redis", 10), ("postgres", 40)):
        eventually(lambda after=after: len(endpoint.answered) > after, 120, "answers")
        kill(service, part)
    ended = outlasting(service, run["id"])
    assert ended["state_type"] == "COMPLETED", ended["state"]
    assert ended["run_count"] == 1
    asked = Counter(line.question.text for line in endpoint.log)
    assert (len(asked), set(asked.values())) == (ROWS, {1}), "each question was asked once"
    (made,) = [run for run in Store.open(service.environment["LEADLINE_STORE"]).runs() if run.id not in before]
    assert (made.read()["computed"], made.read()["status"]) == (ROWS, "completed")
    log = (service.folder / "log").read_text()
    assert "redis ended with code -9 and is started again" in log
    assert "postgres ended with code -9 and is started again" in log

    again = service.post(f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})
    assert service.ended(again["id"], 120)["state_type"] == "COMPLETED"
    assert len(endpoint.log) == ROWS, "the scores are there"
