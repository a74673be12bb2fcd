"""Budgets: a policy's limits of latency and cost, judged by exact intervals of percentiles."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.analyse.gate import decide
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import Choice
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_jsonl, write

BUDGETS = {"latency:latency_p95": {"role": "should", "threshold": 2.0}, "cost": {"role": "should", "threshold": 0.01}}


def run(folder: Path, seconds: list[float], usd: float) -> tuple[str, dict[str, Any]]:
    """Return the gate's decision and the aggregates of a run under the budgets, by metric."""
    store = Store.open(folder / "store")
    records = [
        {"case": str(n), "model": "m", "question": f"{n}?", "answer": "So.", "latency_s": each, "cost": usd + n * 1e-6}
        for n, each in enumerate(seconds)
    ]
    loaded = load_dataset(store, write(folder, "rows.jsonl", as_jsonl(records)))
    choice = Choice(tuple(get(name)() for name in ("cost", "latency")), {})
    policy = load_policy("default").extended(BUDGETS)
    planned = pipeline.plan_run(store, loaded, choice, Settings(), model_keys=(), processes=1, config={}, policy=policy)
    found = store.run(planned.run)
    for chunk in planned.chunks:
        score_chunk(chunk)
    for step in (pipeline.gather_scores, pipeline.aggregate_scores, pipeline.detect_flips, pipeline.detect_problems):
        step(store, found)
    with open_run(store, found) as connection:
        lines = connection.execute(
            "SELECT metric, value, ci_low, ci_high, ci_method, verdict FROM aggregates JOIN metrics USING (metric_id)"
        ).fetchall()
        return decide(connection, policy, chosen=True).gate, {metric: rest for metric, *rest in lines}


def test_a_run_within_its_budgets_passes(tmp_path: Path) -> None:
    gate, found = run(tmp_path, [1 + n / 200 for n in range(100)], 0.002)
    assert gate == "pass"
    value, low, high, method, verdict = found["latency_p95"]
    assert (value, method, verdict) == (1 + 94 / 200, "ranks", "pass")
    assert low < value < high < 2


def test_answers_that_are_surely_too_slow_or_too_dear_fail_the_gate_even_if_they_are_few(tmp_path: Path) -> None:
    slow, found = run(tmp_path / "slow", [3.0 + n for n in range(20)], 0.002)
    assert slow == "fail"
    assert math.isinf(found["latency_p95"][2])
    dear, _ = run(tmp_path / "dear", [1.0 + n / 100 for n in range(20)], 0.02)
    assert dear == "fail"


def test_a_percentile_that_misses_by_chance_decides_nothing(tmp_path: Path) -> None:
    gate, found = run(tmp_path, [1.0 + n / 100 for n in range(18)] + [2.5, 2.6], 0.002)
    assert gate == "inconclusive"
    assert found["latency_p95"][4] == "inconclusive"
