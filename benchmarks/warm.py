"""The second run of the same dataset against the first: what it costs to compute nothing.

Run: ``python -m benchmarks.warm [ROWS]`` (500 rows by default). Both runs are whole: load, plan, score, gather,
aggregate, flips, problems, insights and publish, without Prefect, whose cost is the same for both. Two sets are
measured: rules with the embedding evaluators, as a user would run them, and rules alone, which are so cheap that the
report is most of a run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.machine import describe, timed, verdict
from benchmarks.rules import EVALUATORS, make_rows
from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import Choice
from leadline.tasks.score.executor import LocalLanes, default_processes, drive
from leadline.tasks.store.store import Store

EMBEDDING = (
    "answer_semantic_similarity",
    "answer_semantic_sentence_similarity",
    "answer_relevancy_sentence_similarity",
    "context_relevancy_soft",
    "groundedness",
)


def run_once(store: Store, file: Path, evaluators: Sequence[str]) -> int:
    """Run everything once and return how many row scores were computed."""
    processes = default_processes()
    loaded = load_dataset(store, file)
    planned = pipeline.plan_run(
        store,
        loaded,
        Choice(tuple(get(name)() for name in evaluators), {}),
        Settings(embedder="offline"),
        model_keys=(),
        processes=processes,
        config={},
    )
    run = store.run(planned.run)
    with LocalLanes(processes, planned.chunks) as lanes, ThreadPoolExecutor(processes) as pool:
        drive(planned.chunks, lanes.widths, lambda chunk: pool.submit(lanes.score, chunk), lambda _, f: f.result())
    pipeline.gather_scores(store, run)
    pipeline.aggregate_scores(store, run)
    pipeline.detect_flips(store, run)
    pipeline.detect_problems(store, run)
    pipeline.derive_insights(store, run)
    pipeline.decide_gate(store, run, fail_on="never", min_coverage=None)
    pipeline.publish_results(store, run, None)
    return planned.to_compute


def measure(rows: int, evaluators: Sequence[str]) -> None:
    """Print the ratio for one set of evaluators."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in make_rows(rows)), encoding="utf-8")
        store = Store.open(Path(folder) / "store")
        with timed() as cold:
            computed = run_once(store, file, evaluators)
        with timed() as warm:
            again = run_once(store, file, evaluators)
    print(f"{rows:,} rows; {', '.join(evaluators)}")
    print(f"cold {cold.seconds:.1f} s ({computed:,} row scores), warm {warm.seconds:.1f} s ({again:,} row scores)")
    print(verdict("warm over cold", warm.seconds / cold.seconds, 0.1, at_least=False))


def main() -> None:
    """Print the ratios."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(describe())
    measure(rows, (*EVALUATORS, *EMBEDDING))
    measure(40 * rows, EVALUATORS)


if __name__ == "__main__":
    main()
