"""The cost of having chunks scored as a flow, on Prefect workers and on Dask; and what more workers bring.

Run: ``python -m benchmarks.dispatch [overhead|judges|dask|all]``. Prefect's server and workers, or Dask's, are started
for it on this machine.

*Overhead*: rules are scored in 1, 10 and 100 chunks by bare function calls, by the flow here, and by the flow on one
worker with a place per core. What is given is the time per chunk beyond the bare calls, once the flow has started.

*Judges*: an endpoint takes 300 ms for a reply; 1, 2 and 4 workers of one place have the same few calls in flight each,
so that the processors are not what is measured. The throughput is that of the endpoint from the moment that all places
of all workers are taken to the moment that the first shard ends; the wall time of the whole run is given beside it.

*Dask*: 20,000 rows of rules, and 400 rows that a judge takes 300 ms for, on 1, 2 and 4 workers and in one process, all
without Prefect: seconds of scoring. And what a chunk costs more on a Dask worker than as a bare call.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, timed, verdict
from leadline.tasks.score.executor import default_processes
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.dask_farm import DaskFarm
from tests.support.processes.worker_farm import Farm

CHUNKS = (1, 10, 100)
ROWS = 1_300
RULES = ("rouge", "valor.rouge", "looping_detection")
LATENCY_S = 0.3
IN_FLIGHT = 8
JUDGED_ROWS = 4_800
WORKERS = (1, 2, 4)
DASK_RULES = 20_000
DASK_JUDGED = 400
MOST_OVERHEAD_S = 0.3
OVERHEAD_CHUNKS = 40


def write_rows(path: Path, rows: int) -> Path:
    """Write answers that rules and judges can score."""
    words = "the harbour was dredged to a depth of nine metres and again after the flood of the year".split()
    lines = [
        {
            "case": f"c{n}",
            "model": "m",
            "question": f"How deep is berth {n}?",
            "expected_answer": f"{n} " + " ".join(words[(n + k) % len(words)] for k in range(60)),
            "actual_answer": " ".join(words[(n * 7 + k * 3) % len(words)] for k in range(60)),
        }
        for n in range(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def score_in_chunks(store: str, dataset: str, count: int, how: str) -> None:
    """Plan a run, score it in so many chunks, and print the seconds of scoring alone. Runs in a process of its own."""
    from leadline.evaluators.settings import Settings
    from leadline.flows.shared.settings import Dispatch
    from leadline.tasks import pipeline
    from leadline.tasks.load.dataset import load_dataset
    from leadline.tasks.plan.selection import choose
    from leadline.tasks.score.chunk import score_chunk
    from leadline.tasks.store.store import Store

    opened = Store.open(store)
    settings = Settings()
    planned = pipeline.plan_run(
        opened, load_dataset(opened, Path(dataset)), choose(None, RULES, {}, settings), settings,
        model_keys=(), processes=1, config={},
    )  # fmt: skip
    whole = planned.chunks[0]
    last = max(chunk.last for chunk in planned.chunks)
    chunks = tuple(
        replace(whole, number=n, first=(last + 1) * n // count, last=(last + 1) * (n + 1) // count - 1,
                rows=ROWS // count, scores=ROWS * len(RULES) // count)
        for n in range(count)
    )  # fmt: skip
    if how == "bare":
        score_chunk(replace(whole, first=0, last=0))  # imports
        with timed() as timing:
            for chunk in chunks:
                score_chunk(chunk)
        print(timing.seconds)
        return
    from prefect import flow

    from leadline.flows.dispatch.lanes import open_lanes
    from leadline.flows.evaluate.prefect_steps import PrefectSteps
    from leadline.flows.evaluate.steps import Retries
    from leadline.flows.prefect.prefect_steps import _RUNNER

    seconds = []

    @flow(name="benchmark", task_runner=_RUNNER, persist_result=False)
    def scoring() -> None:
        with timed() as timing:
            steps = PrefectSteps()
            lanes = open_lanes(1, chunks, {"cpu": 1} if how == "workers" else {}, Dispatch.WORKERS, steps)
            steps.score(chunks, lanes, Retries(()), lambda *_: None)
        seconds.append(timing.seconds)

    if how == "here":
        score_chunk(replace(whole, first=0, last=0))
    scoring()
    print(seconds[0])


def measure(farm: Farm, dataset: Path, count: int, how: str) -> float:
    """Score in a process of its own; returns the seconds of scoring."""
    store = tempfile.mkdtemp(dir=farm.folder)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dispatch", "--score", store, str(dataset), str(count), how],
        env=farm.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def overhead(farm: Farm) -> None:
    """Print the overhead of the flow over bare scoring."""
    dataset = write_rows(farm.folder / "rules.jsonl", ROWS)
    farm.start_workers("cpu", limit=default_processes())
    print(f"{ROWS:,} rows, {len(RULES)} rules; seconds of scoring, and what the flow adds to each chunk")
    print(f"{'chunks':>6} {'bare':>8} {'flow here':>10} {'per chunk':>10} {'on a worker':>12} {'per chunk':>10}")
    for count in CHUNKS:
        bare, here, there = (measure(farm, dataset, count, how) for how in ("bare", "here", "workers"))
        print(
            f"{count:>6} {bare:>7.2f}s {here:>9.2f}s {1000 * (here - bare) / count:>7.0f} ms "
            f"{there:>11.2f}s {(there - bare) / count:>8.2f} s",
            flush=True,
        )
    farm.stop_workers()


def serve(pipe: Connection) -> None:
    """Run the endpoint until told to stop; say on request when it replied, and how many calls were in flight then."""
    answer = json.dumps({"rationale": "Because of the harbour.", "rating": "yes"})
    times: list[tuple[float, int]] = []

    def reply(_: object) -> str:
        times.append((time.time(), endpoint.in_flight))
        return answer

    with serving(JudgeEndpoint(reply, latency=LATENCY_S)) as endpoint:
        pipe.send(endpoint.url)
        while pipe.recv():
            pipe.send(times[:])
            times.clear()


def judges(farm: Farm) -> None:
    """Print the throughput with 1, 2 and 4 judge workers."""
    dataset = write_rows(farm.folder / "judged.jsonl", JUDGED_ROWS)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    endpoint = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    endpoint.start()
    (farm.folder / "leadline.toml").write_text(
        f'[judges.slow]\nmodel = "openai/judge"\napi_base = "{ours.recv()}"\n'
        f"max_in_flight = {IN_FLIGHT}\nstart_in_flight = {IN_FLIGHT}\n"
    )
    print(f"{JUDGED_ROWS:,} calls of {LATENCY_S * 1000:.0f} ms, {IN_FLIGHT} in flight per worker")
    rates, walls = [], []
    for count in WORKERS:
        farm.start_workers(*["judge"] * count)
        result = evaluate(farm, dataset)
        ours.send(True)
        times = ours.recv()
        shards = farm.shards(result["run"])
        rates.append(throughput(times, shards, count))
        walls.append(float(result["time"]["total"]))
        print(
            f"{count} workers: {rates[-1]:.1f} calls/s while all are at work "
            f"(ideal {count * IN_FLIGHT / LATENCY_S:.0f}), "
            f"the whole run {walls[-1]:.1f} s, {len(times):,} calls, {len(shards)} shards",
            flush=True,
        )
        farm.stop_workers()
    ours.send(False)
    for one, more in pairwise(range(len(WORKERS))):
        print(verdict(f"throughput, {WORKERS[one]} to {WORKERS[more]} workers", rates[more] / rates[one], 1.8))
        print(f"  the whole run, start of processes and report included: {walls[one] / walls[more]:.2f}")


def evaluate(farm: Farm, dataset: Path) -> Mapping[str, Any]:
    """Run ``leadline evaluate`` on workers in a fresh store."""
    command = [sys.executable, "-m", "leadline.cli.main", "--store", tempfile.mkdtemp(dir=farm.folder),
               "evaluate", str(dataset), "-e", "databricks.relevance_to_query", "--dispatch", "workers",
               "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=farm.folder, env=farm.environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: Mapping[str, Any] = json.loads(done.stdout)
    if result["unscored"]:
        raise SystemExit(f"{result['unscored']} rows are unscored")
    return result


def throughput(times: Sequence[tuple[float, int]], shards: Sequence[Mapping[str, Any]], workers: int) -> float:
    """Return calls per second from when all places are taken until the first shard ends."""
    last = min(datetime.fromisoformat(one["end_time"]).timestamp() for one in shards)
    first = next(moment for moment, in_flight in times if in_flight >= workers * IN_FLIGHT)
    return sum(first <= moment <= last for moment, _ in times) / (last - first)


def on_dask(folder: Path) -> None:
    """Print the seconds of scoring on Dask workers and in one process, and what a chunk costs more there."""
    rules = write_rows(folder / "rules.jsonl", DASK_RULES)
    judged = write_rows(folder / "judged.jsonl", DASK_JUDGED)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    endpoint = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    endpoint.start()
    (folder / "leadline.toml").write_text(
        f'[judges.slow]\nmodel = "openai/judge"\napi_base = "{ours.recv()}"\n'
        f"max_in_flight = {IN_FLIGHT}\nstart_in_flight = {IN_FLIGHT}\n"
    )
    os.chdir(folder)
    jobs = {"cpu": (rules, RULES), "judge": (judged, ("databricks.relevance_to_query",))}
    alone = {lane: score_directly(*job, "inline")[0] for lane, job in jobs.items()}
    print(f"{'':<14} {'20,000 rows, 3 rules':>22} {'400 judged rows':>17}")
    print(f"{'one process':<14} {alone['cpu']:>20.1f} s {alone['judge']:>15.1f} s", flush=True)
    for count in WORKERS:
        with DaskFarm(folder) as farm:
            farm.start_workers("cpu", processes=count)
            farm.start_workers("judge", processes=count)
            there = {lane: score_directly(*job, farm.address)[0] for lane, job in jobs.items()}
        print(f"{f'{count} on Dask':<14} {there['cpu']:>20.1f} s {there['judge']:>15.1f} s", flush=True)
    ours.send(False)
    few = write_rows(folder / "few.jsonl", ROWS)
    with DaskFarm(folder) as farm:
        farm.start_workers("cpu")
        score_directly(few, RULES, farm.address)
        bare, chunks = score_directly(few, RULES, "inline", chunks=OVERHEAD_CHUNKS)
        there_s, _ = score_directly(few, RULES, farm.address, chunks=OVERHEAD_CHUNKS)
    print(f"{chunks} chunks of {ROWS // chunks} rows: {bare:.2f} s here, {there_s:.2f} s on one Dask worker")
    print(verdict("seconds that a chunk may add / adds", MOST_OVERHEAD_S * chunks / max(1e-9, there_s - bare), 1.0))


def score_directly(dataset: Path, evaluators: Sequence[str], dispatch: str, chunks: int = 0) -> tuple[float, int]:
    """Evaluate without Prefect in a fresh store; returns the seconds of scoring and the number of chunks.

    Args:
        dataset: File with the answers.
        evaluators: Their ids.
        dispatch: Where chunks are scored.
        chunks: So many of the same size instead of those of the plan.
    """
    from leadline.flows.evaluate.config import EvaluateConfig
    from leadline.flows.evaluate.job import Evaluate
    from leadline.flows.evaluate.steps import EvaluationSteps
    from leadline.tasks.plan.jobs import Chunk

    measured: list[tuple[float, int]] = []

    class Timed(EvaluationSteps):
        def score(self, planned: Sequence[Chunk], *rest: Any) -> None:
            last = max(chunk.last for chunk in planned)
            if chunks:
                planned = [
                    replace(
                        planned[0], number=n, first=(last + 1) * n // chunks, last=(last + 1) * (n + 1) // chunks - 1
                    )
                    for n in range(chunks)
                ]
            with timed() as timing:
                super().score(planned, *rest)
            measured.append((timing.seconds, len(planned)))

    config = EvaluateConfig(
        dataset=str(dataset), evaluators=tuple(evaluators), dispatch=dispatch, processes=1,
        store=tempfile.mkdtemp(dir=dataset.parent),
    )  # fmt: skip
    result = Evaluate().carry_out(config, Timed())
    if result.unscored:
        raise SystemExit(f"{result.unscored} rows are unscored")
    return measured[0]


def main() -> None:
    """Print figures."""
    if sys.argv[1:2] == ["--score"]:
        store, dataset, count, how = sys.argv[2:]
        score_in_chunks(store, dataset, int(count), how)
        return
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    print(describe())
    if what in ("dask", "all"):
        with tempfile.TemporaryDirectory() as folder:
            here = Path.cwd()
            on_dask(Path(folder))
            os.chdir(here)
    if what == "dask":
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "prefect"
        home.mkdir()
        quiet = {"PREFECT_LOGGING_LEVEL": "WARNING", "PYTHONPATH": str(Path.cwd())}
        with Farm(Path(folder), home, quiet) as farm:
            if what in ("overhead", "all"):
                overhead(farm)
            if what in ("judges", "all"):
                judges(farm)


if __name__ == "__main__":
    main()
