"""The watcher on a real Prefect server: what is told, once, and what an outage leaves to be told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from leadline.plugins.ops.notify.notice import Kind, Notice
from leadline.plugins.ops.notify.recipients import EVERYTHING, Recipient
from leadline.plugins.ops.notify.watching import Watcher
from leadline.tasks.store.store import Store
from tests.support.processes.service import eventually
from tests.support.stores.runs import make_run

pytestmark = pytest.mark.slow

GROUPS = [[kind] for kind in EVERYTHING if kind not in (Kind.CRASHED, Kind.LOST)] + [[Kind.CRASHED, Kind.LOST]]
EACH = tuple(Recipient(kinds[0], "json://nowhere", frozenset(kinds)) for kinds in GROUPS)
"""Recipients of so few kinds each that no two notices share a message."""

ENDS = frozenset([Kind.FAILED, Kind.CRASHED, Kind.CANCELLED])


class Server:
    """A Prefect server, and runs on it that a deployment made."""

    def __init__(self, url: str) -> None:
        self._url = url
        flow = self.post("/flows/", {"name": "evaluate"})["id"]
        self._deployment = self.post("/deployments/", {"name": "harbour", "flow_id": flow})["id"]

    def post(self, path: str, body: Any) -> Any:
        def answered() -> httpx.Response | None:
            reply = httpx.post(f"{self._url}{path}", json=body, trust_env=False, timeout=30)
            return None if reply.status_code == 503 else reply  # its SQLite is busy

        reply = eventually(answered, 60, f"an answer to {path}")
        reply.raise_for_status()
        return reply.json() if reply.content else None

    def run(
        self,
        name: str,
        state: str,
        label: str | None = None,
        message: str = "",
        due: datetime | None = None,
        config: dict[str, Any] | None = None,
    ) -> str:
        scheduled = {"scheduled_time": (due or datetime.now(UTC)).isoformat()}
        first = {"type": "SCHEDULED", "state_details": scheduled}
        asked = {"name": name, "state": first, "idempotency_key": str(uuid4()), "parameters": {"config": config}}
        made = self.post(f"/deployments/{self._deployment}/create_flow_run", asked)["id"]
        new: dict[str, Any] = {"type": state, "message": message, **({"name": label} if label else {})}
        if state == "SCHEDULED":
            new["state_details"] = scheduled
        self.post(f"/flow_runs/{made}/set_state", {"state": new, "force": True})
        return str(made)

    def gate(self, ending: str, payload: dict[str, Any]) -> None:
        about = {"prefect.resource.id": f"leadline.run.{uuid4()}", "prefect.resource.name": "nightly (r1)"}
        event = {"event": f"leadline.gate.{ending}", "resource": about, "payload": payload, "id": str(uuid4())}
        self.post("/events", [event | {"occurred": datetime.now(UTC).isoformat()}])
        wanted = {"filter": {"id": {"id": [event["id"]]}}}
        eventually(lambda: self.post("/events/filter", wanted)["events"], 30, "the event is stored")


@pytest.fixture
def server(api: dict[str, str]) -> Iterator[Server]:
    with temporary_settings({PREFECT_API_URL: api["PREFECT_API_URL"]}):
        yield Server(api["PREFECT_API_URL"])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


class Told:
    """Keeps what is told, or refuses it."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, Notice]] = []
        self.refusal = ""

    def __call__(self, recipient: Recipient, notice: Notice) -> str:
        if not self.refusal:
            self.notices.append((recipient.name, notice))
        return self.refusal

    def titles(self) -> list[str]:
        return sorted(notice.title for _, notice in self.notices)


def lost_run(store: Store, run_id: str, **record: Any) -> None:
    """Make a run whose process is gone."""
    now = datetime.now(UTC).isoformat()
    make_run(store, run_id, record={"status": "lost", "error": "Gone.", "started": now, "gate": None} | record)


def test_whatever_keeps_a_run_from_its_gate_is_told_once(server: Server, store: Store, tmp_path: Path) -> None:
    told = Told()

    def look() -> int:  # as after a restart
        return Watcher(tmp_path / "notify", EACH, store, "http://prefect", told).look()

    server.run("before", "FAILED")
    lost_run(store, "20260101-before")
    assert look() == 0, "what was before is no news"
    nightly = {"name": "nightly", "dataset": "answers.json"}
    failed = server.run(
        "handsome-tortoise", "FAILED", config=nightly, message="DatasetError: There is no file answers.json."
    )
    server.run("by hand", "CANCELLED")
    crashed = server.run("killed", "CRASHED", message="No heartbeat for five minutes.")
    server.run("well", "COMPLETED")
    server.run(
        "wise-owl",
        "SCHEDULED",
        "Late",
        config={"dataset": "a/forgotten.json"},
        due=datetime.now(UTC) - timedelta(minutes=16),
    )
    server.run("soon", "SCHEDULED", "Late", due=datetime.now(UTC) - timedelta(minutes=2))
    worst = {"worst": ["beta leaks"], "changed": "2 newly broken"}
    link = {"report": "http://page/runs/r1/report.html"}
    server.gate("failed", {"reason": "1 problem of high severity."} | worst | link)
    server.gate("inconclusive", {"reason": "Too little was scored.", "report": "javascript:alert(1)"})
    server.gate("passed", {"reason": "All is well."})
    lost_run(store, "20260102-lost")
    lost_run(store, "20260102-killed", flow_run=crashed)
    assert look() == 7
    assert told.titles() == [
        "by hand (harbour) was cancelled, so its gate says nothing",
        "forgotten (harbour) is due and has not started",
        "killed (harbour) crashed, so its gate says nothing",
        "nightly (20260102-lost) was lost with its process, so its gate says nothing",
        "nightly (harbour) failed, so its gate says nothing",
        "nightly (r1) fails its gate",
        "nightly (r1): whether it passes its gate cannot be told",
    ]
    bodies = {name: notice.body for name, notice in told.notices}
    assert bodies["failed"] == f"DatasetError: There is no file answers.json.\nhttp://prefect/runs/flow-run/{failed}"
    assert bodies["fail"].splitlines() == [
        "1 problem of high severity.", "- beta leaks", "Changed: 2 newly broken", "http://page/runs/r1/report.html",
    ]  # fmt: skip
    assert bodies["inconclusive"] == "Too little was scored."
    assert look() == look() == 0
    assert len(told.notices) == 7


def test_an_outage_of_the_server_and_of_a_service_delays_a_notice_and_loses_none(
    server: Server, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.plugins.ops.notify.outbox.FIRST_PAUSE_S", 0.0)
    told, folder, everything = Told(), tmp_path / "notify", [Recipient("team", "json://nowhere", ENDS)]
    assert Watcher(folder, everything, store, send=told).look() == 0
    server.run("while away", "FAILED")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        away = Watcher(folder, everything, store, send=told)
        assert [away.look(), away.look()] == [0, 0]
    told.refusal = "Connection refused."
    assert Watcher(folder, everything, store, send=told).look() == 0
    told.refusal = ""
    assert Watcher(folder, everything, store, send=told).look() == 1
    assert told.titles() == ["while away (harbour) failed, so its gate says nothing"]


def test_a_recipient_hears_only_what_it_asked_for(server: Server, store: Store, tmp_path: Path) -> None:
    told = Told()
    watcher = Watcher(tmp_path / "notify", [Recipient("x", "json://x", frozenset([Kind.CRASHED]))], store, send=told)
    watcher.look()
    server.run("failed", "FAILED")
    server.run("crashed", "CRASHED")
    assert watcher.look() == 1
    assert told.titles() == ["crashed (harbour) crashed, so its gate says nothing"]
