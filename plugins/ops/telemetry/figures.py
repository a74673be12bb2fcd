"""Figures of the ledger, of the enrolled judges, and of Prefect's API."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import httpx

from leadline.evaluators.judge_client.budget import TeamBudget, month_of
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import MOST, OTHER, Figures, few, label
from leadline.tasks.judges.drift.judge_standing import STATES, standings
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.store.store import Store

_API_S: Final = 5.0
"""Longest wait for an answer of the API."""

_STATES: Final[dict[str, dict[str, Any]]] = {
    "late": {"name": {"any_": ["Late"]}},
    "pending": {"type": {"any_": ["PENDING"]}},
    "running": {"type": {"any_": ["RUNNING"]}},
}


def ledger_figures(ledger: LedgerReader, budgets: Mapping[str, TeamBudget]) -> Figures:
    """Return the figures of a ledger.

    Args:
        budgets: The teams' budgets, for their limits.
    """
    figures = Figures()
    _put_calls(figures, ledger.by_model())
    lost = len(ledger.lost())
    figures.put(m.CALLS_LOST, lost)
    figures.put(m.CALLS_IN_FLIGHT, max(0, ledger.open_calls() - lost))
    figures.put(m.REPLIES_UNREADABLE, ledger.unreadable())
    for line in ledger.teams(month_of(time.time())):
        figures.put(m.TEAM_CALLS, line["calls"], label(line["team"]))
        figures.put(m.TEAM_USD, line["usd"], label(line["team"]))
    for team, budget in budgets.items():
        if budget.calls is not None:
            figures.put(m.TEAM_CALLS_LIMIT, budget.calls, label(team))
        if budget.cost_usd is not None:
            figures.put(m.TEAM_USD_LIMIT, budget.cost_usd, label(team))
    return figures


def _put_calls(figures: Figures, lines: list[dict[str, Any]]) -> None:
    """Note the calls by model; of many models, those with the most calls by name."""
    labels = few([line["model"] for line in lines])
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in lines:
        for name, value in line.items():
            if name != "model":
                sums[labels[line["model"]]][name] += value
    for model, line in sums.items():
        for state in ("answered", "failed"):
            figures.put(m.CALLS, line[state], model, state)
        figures.put(m.CALL_RETRIES, line["retries"], model)
        figures.put(m.CALL_SECONDS, line["seconds"], model)
        figures.put(m.CALL_TOKENS, line["input_tokens"], model, "input")
        figures.put(m.CALL_TOKENS, line["output_tokens"], model, "output")
        figures.put(m.CALL_COST, line["cost_usd"], model)
        figures.put(m.CALLS_UNPRICED, line["unpriced"], model)


def judge_figures(store: Store) -> Figures:
    """Return the figures of a store's judges; of many judges, only the first by name."""
    figures = Figures()
    found = standings(store)
    labels = few([standing.name for standing in found])
    for standing in found:
        name = labels[standing.name]
        if name == OTHER:
            continue
        for state in STATES:
            figures.put(m.JUDGE_STATE, float(standing.state == state), name, state)
        figures.put(m.JUDGE_EPOCH, standing.epoch, name)
        if standing.check is not None:
            figures.put(m.JUDGE_CHECKED, standing.check.at, name)
            figures.put(m.JUDGE_P, standing.check.p, name)
    return figures


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
    return httpx.Client(base_url=api, timeout=_API_S, auth=(user, password) if secret else None, headers=headers)


def _asked(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    reply = client.post(path, json=body)
    reply.raise_for_status()
    return reply.json()
