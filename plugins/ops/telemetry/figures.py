"""Figures of the store, of the ledger, of the enrolled judges, and of Prefect's API."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import httpx

from leadline.evaluators.ground import LeadlineError
from leadline.evaluators.judge_client.budget import TeamBudget, month_of
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import MOST, OTHER, Buckets, Figures, few, label
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.judges.drift.judge_standing import STATES, standings
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.runs.heartbeats import LOST, is_lost
from leadline.tasks.runs.lookup import status
from leadline.tasks.store.store import RESCORED, Run, Store

_API_S: Final = 5.0
"""Longest wait for an answer of the API."""

_STATES: Final[dict[str, dict[str, Any]]] = {
    "late": {"name": {"any_": ["Late"]}},
    "pending": {"type": {"any_": ["PENDING"]}},
    "running": {"type": {"any_": ["RUNNING"]}},
}


def ledger_figures(ledger: LedgerReader, budgets: Mapping[str, TeamBudget]) -> Figures:
    """Return the figures of a ledger."""
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


_GATES: Final = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}
_RUN_STATES: Final = ("running", "completed", "failed", "interrupted", LOST)


@dataclass(slots=True)
class StoreFigures:
    """Reads the runs of a store again and again, and counts what ended in between.

    Counters begin with 0 and never fall, whatever is deleted from the store: so Prometheus takes a restart of the
    exporter for what it is.
    """

    store: Store
    _states: dict[str, str] = field(default_factory=dict)
    _known: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    _ended: Counter[str] = field(default_factory=Counter)
    _gates: Counter[str] = field(default_factory=Counter)
    _scores: Counter[str] = field(default_factory=Counter)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _chunks: dict[str, Buckets] = field(default_factory=dict)
    _begun: bool = False

    def read(self) -> Figures:
        """Return the figures now."""
        runs = [(run, self._record(run)) for run in self.store.runs()]
        states = {run.id: LOST if is_lost(run, record) else status(record) for run, record in runs}
        if self._begun:
            for run, record in runs:
                before = self._states.get(run.id)
                if states[run.id] != "running" and before in (None, "running"):
                    self._count(states[run.id], record)
        self._states, self._begun = states, True
        self._known = {run.id: self._known[run.id] for run, _ in runs if run.id in self._known}
        figures = Figures()
        counted = Counter(states.values())
        for state in _RUN_STATES:
            figures.put(m.RUNS, counted[state], state)
        self._put_counters(figures)
        _put_last(figures, [record for run, record in runs if states[run.id] == "completed"])
        return figures

    def _record(self, run: Run) -> dict[str, Any]:
        """Return a run's record, which is read again only if its file has changed; of one just deleted nothing."""
        try:
            changed = (run.path / "run.json").stat().st_mtime_ns
            known = self._known.get(run.id)
            if known is None or known[0] != changed:
                record = run.read()
                known = changed, {name: record.get(name) for name in _READ}
                self._known[run.id] = known
        except (OSError, ValueError, LeadlineError):
            return {"status": "failed"}
        return known[1]

    def _count(self, state: str, record: Mapping[str, Any]) -> None:
        self._ended[state] += 1
        if state != "completed":
            return
        self._gates[str(record.get("gate"))] += 1
        self._scores.update({name: int(count) for name, count in (record.get("counts") or {}).items()})
        time = RunTime.from_record(record)
        for part, seconds in (time.parts if time else {}).items():
            self._seconds[part] += seconds
        for lane, values in (record.get("chunk_seconds") or {}).items():
            self._chunks[lane] = self._chunks.get(lane, Buckets()) + Buckets.of(values)

    def _put_counters(self, figures: Figures) -> None:
        for state in _RUN_STATES[1:]:
            figures.put(m.RUNS_ENDED, self._ended[state], state)
        for gate in _GATES:
            figures.put(m.GATES, self._gates[gate], gate)
        for name in ("scored", "unscored", "not_applicable"):
            figures.put(m.SCORES, self._scores[name], name)
        for part, seconds in self._seconds.items():
            figures.put(m.RUN_SECONDS, seconds, part)
        for lane in ("cpu", "gpu", "judge"):
            figures.put(m.CHUNK_SECONDS, self._chunks.get(lane, Buckets()), lane)


_READ = (
    "status", "error", "process", "started", "name", "gate", "counts", "problems_by_fault", "time", "chunk_seconds",
    RESCORED,
)  # fmt: skip
"""Fields of a record that figures come from; the rest would only take memory."""


def _put_last(figures: Figures, completed: list[dict[str, Any]]) -> None:
    """Note the last completed run of each name, of the names that were used last."""
    last: dict[str, dict[str, Any]] = {}
    for record in reversed(completed):
        if record.get(RESCORED):
            continue
        last.setdefault(label(record.get("name")), record)
        if len(last) == MOST:
            break
    for name, record in last.items():
        counts = record.get("counts") or {}
        applicable = counts.get("scored", 0) + counts.get("unscored", 0)
        if applicable:
            figures.put(m.LAST_COVERAGE, counts.get("scored", 0) / applicable, name)
        if record.get("gate") in _GATES:
            figures.put(m.LAST_GATE, _GATES[str(record["gate"])], name)
        for severity, count in ((record.get("problems_by_fault") or {}).get("model") or {}).items():
            figures.put(m.LAST_PROBLEMS, count, name, severity)
        time = RunTime.from_record(record)
        if time:
            figures.put(m.LAST_SECONDS, time.total, name)
        if record.get("started"):
            figures.put(m.LAST_START, datetime.fromisoformat(str(record["started"])).timestamp(), name)
