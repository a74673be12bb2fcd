"""Many runs at once on one service: whether each ends, and whether anything is computed or asked twice.

Run: ``python -m benchmarks.crowd --runs 50``, with PostgreSQL and Redis. Runs of a few datasets are asked for at the
same moment, so that several want the same scores; one in five brings answers that nobody else has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.live_service import ENDED, LiveService, counts, repeated_calls, repeated_scores, serving
from benchmarks.machine import describe

ROWS: Final = 60
SHARED: Final = 4
"""Datasets that several runs share."""

EVALUATORS: Final = ("bleu", "rouge", "databricks.safety")
PATIENCE_S: Final = 3600.0


def _dataset(folder: Path, name: str) -> Path:
    """Write a dataset of answers that no other name has."""
    path = folder / f"{name}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            answer = f"Berth {number} of {name} is {3 + number % 9} metres deep."
            question = f"How deep is the harbour at berth {number} of {name}?"
            row = {"case": f"berth-{number}", "model": "pilot", "question": question}
            file.write(json.dumps(row | {"actual_answer": answer, "expected_answer": answer}) + "\n")
    return path


def _crowd(service: LiveService, runs: int) -> list[str]:
    """Ask for runs at once, wait until they have ended, and return what is wrong.

    Args:
        service: The service.
        runs: How many.
    """
    names = [f"own-{number}" if number % 5 == 0 else f"shared-{number % SHARED}" for number in range(runs)]
    datasets = {name: _dataset(service.folder, name) for name in names}
    deployment = service.ask("GET", "/deployments/name/evaluate/evaluate")["id"]

    def ask(name: str) -> None:
        config = service.config(datasets[name], name, EVALUATORS)
        service.ask("POST", f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})

    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, names))
    asked = time.monotonic()
    while time.monotonic() - asked < PATIENCE_S:
        found = service.runs_of("evaluate/evaluate", scheduled=True)
        if len(found) == runs and all(run["state_type"] in ENDED for run in found):
            break
        time.sleep(5)
    states = Counter(run["state_type"].lower() for run in found)
    print(f"Runs      {len(found)} of {runs}: {counts(states)}; asked for in {asked - began:.1f} s, "
          f"ended after {time.monotonic() - began:.0f} s")  # fmt: skip
    wrong = [f"{runs - states['completed']} runs did not complete"] if states["completed"] != runs else []
    calls, answers = service.judge.stats().calls, len(datasets) * ROWS
    if calls != answers:
        wrong.append(f"{calls} calls for {answers} different answers")
    return wrong + repeated_calls(service) + repeated_scores(service)


def main() -> None:
    """Ask for many runs at once and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=50, help="how many at once")
    options = parser.parse_args()
    print(describe())
    with serving() as service:
        wrong = _crowd(service, options.runs)
    for line in wrong:
        print(f"WRONG     {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
