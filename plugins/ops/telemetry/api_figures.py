"""Figures of Prefect's API: what waits and runs in the work pools, and the workers that are online."""

from __future__ import annotations

import os
from typing import Any, Final

import httpx

from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import MOST, Figures, label

API_S: Final = 5.0
"""Longest wait for an answer of the API."""

_STATES: Final[dict[str, dict[str, Any]]] = {
    "late": {"name": {"any_": ["Late"]}},
    "pending": {"type": {"any_": ["PENDING"]}},
    "running": {"type": {"any_": ["RUNNING"]}},
}


def api_figures(api: str) -> Figures:
    """Return the figures of an API.

    Args:
        api: Its URL.

    Raises:
        httpx.HTTPError: It does not answer, or not in time.
        ValueError: Its answer is no JSON.
    """
    figures = Figures()
    with _client(api) as client:
        pools = [str(pool["name"]) for pool in _asked(client, "/work_pools/filter", {"limit": MOST})]
        for pool in pools:
            for state, wanted in _STATES.items():
                counted = _asked(
                    client,
                    "/flow_runs/count",
                    {"work_pools": {"name": {"any_": [pool]}}, "flow_runs": {"state": wanted}},
                )
                figures.put(m.FLOW_RUNS, int(counted), label(pool), state)
            workers = _asked(client, f"/work_pools/{pool}/workers/filter", {})
            figures.put(m.WORKERS, sum(worker["status"] == "ONLINE" for worker in workers), label(pool))
    return figures


def _client(api: str) -> httpx.Client:
    secret = os.environ.get("PREFECT_API_AUTH_STRING", "")
    user, _, password = secret.partition(":")
    key = os.environ.get("PREFECT_API_KEY", "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=api, timeout=API_S, auth=(user, password) if secret else None, headers=headers)


def _asked(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    reply = client.post(path, json=body)
    reply.raise_for_status()
    return reply.json()
