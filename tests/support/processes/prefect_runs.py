"""A Prefect server's runs, as a deployment makes them, in any state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from tests.support.processes.waiting import eventually


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
