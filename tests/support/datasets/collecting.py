"""A suite whose answers tests collect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.evaluators.judge_client.budget import Limits
from leadline.tasks.collect import Collected, ReplayRules, Target, collect
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint

HASTY: dict[str, Any] = {"timeout_s": 20.0, "down_after_s": 5.0, "start_in_flight": 4}


def write_suite(folder: Path, cases: Sequence[dict[str, Any]] | int) -> Path:
    if isinstance(cases, int):
        cases = [
            {"case": f"c{n}", "question": f"How deep is berth {n}?", "expected_answer": f"{n} m"} for n in range(cases)
        ]
    path = folder / "suite.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


class Bench:
    """A suite, a store, and what is collected with them."""

    def __init__(self, folder: Path, cases: Sequence[dict[str, Any]] | int = 6) -> None:
        self.folder = folder
        self.store = Store.open(folder / "store")
        self.suite = load_dataset(self.store, write_suite(folder, cases), cases_only=True)
        self.runs = 0

    def collect(
        self, *targets: Target, limits: Limits | None = None, copies: int = 1, rules: ReplayRules | None = None
    ) -> tuple[Collected, list[dict[str, Any]]]:
        self.runs += 1
        output = self.folder / "answers.jsonl"
        ledger = open_ledger(self.store, f"collect-{self.runs}")
        options: dict[str, Any] = {"limits": limits, "copies": copies, "rules": rules}
        done = collect(self.store, self.suite, targets, output, ledger=ledger, **options)
        load_dataset(self.store, output)  # evaluate takes it
        return done, [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def llm(endpoint: JudgeEndpoint, key: str = "m", **fields: Any) -> Target:
    return Target.model_validate({"key": key, "model": "openai/gpt-x", "api_base": endpoint.url, **HASTY, **fields})
