"""A night of the service: a schedule, a judge over HTTP, and a killer that ends a random process every minute.

Run: ``python -m benchmarks.night --minutes 40``, on an otherwise idle machine with PostgreSQL and Redis. It starts the
service in a folder of its own, deploys ``evaluate`` with a schedule, writes new answers into the dataset between runs
(every fifth time one that leaks a number, which must fail the gate), and kills. At the end it waits until everything
has come to rest and prints what became of the runs, which alerts were right, which were false and which are missing,
what was computed or asked twice, and what `leadline gc` gives back. It leaves with 1 if anything was lost, done twice
without need, or told wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import httpx
import psycopg
import yaml

from benchmarks.endpoint import Remote
from benchmarks.endpoint import running as endpoint
from benchmarks.machine import describe
from leadline.deployments.processes import dying_with_us
from leadline.deployments.service import running

ROWS: Final = 120
NEW_ROWS: Final = 40
"""Answers that are new in each version of the dataset."""

EVALUATORS: Final = ("bleu", "rouge", "text_matching", "pii_leakage", "databricks.safety")
REST_S: Final = 900.0
"""Longest wait for the last runs and alerts after the last kill."""

ENDED: Final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass
class Night:
    """A service that runs, and what was done to it.

    Attributes:
        folder: Where it keeps everything.
        judge: The judge's endpoint.
        environment: Of a shell that talks to it.
        api: Prefect's API.
        kills: What was killed.
        draw: Draws what is killed.
    """

    folder: Path
    judge: Remote
    environment: Mapping[str, str]
    api: str
    supervisor: int
    kills: Counter[str] = field(default_factory=Counter)
    draw: random.Random = field(default_factory=lambda: random.Random(2026))

    def leadline(self, *arguments: str) -> str:
        """Run a command and return what it says."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "leadline.flows.cli.main", *arguments],
            env=dict(self.environment), cwd=self.folder, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"leadline {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what Prefect's API replies; it is asked again while it is down."""
        deadline = time.monotonic() + 300
        while True:
            try:
                reply = httpx.request(method, f"{self.api}{path}", json=body, trust_env=False, timeout=60)
                reply.raise_for_status()
                return reply.json() if reply.content else None
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(5)

    def found(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return everything that a filter of Prefect's API finds, page by page."""
        every: list[dict[str, Any]] = []
        while True:
            page = self.ask("POST", path, {**body, "limit": 200, "offset": len(every)})
            every += page
            if len(page) < 200:
                return every

    def runs_of(self, deployment: str) -> list[dict[str, Any]]:
        """Return the flow runs of a deployment that are past their time."""
        known = self.ask("GET", f"/deployments/name/{deployment}")
        runs = self.found("/flow_runs/filter", {"deployments": {"id": {"any_": [known["id"]]}}})
        return [run for run in runs if run["state_name"] != "Scheduled"]

    def kill_one(self) -> None:
        """Kill a random process below the supervisor."""
        below = _below(self.supervisor)
        if below:
            pid, name = self.draw.choice(below)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[name] += 1


def _below(root: int) -> list[tuple[int, str]]:
    """Return the processes below a process, with a word for each."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if stat[0] != "Z":
                    parents[int(entry.name)] = int(stat[1])
    found, fresh = [], {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh}
        found += [(pid, _word(pid)) for pid in sorted(fresh)]
    return found


def _word(pid: int) -> str:
    """Return what a process is, for counting."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return "gone"
    known = {
        "redis-server": "Redis",
        "postgres": "PostgreSQL",
        "prefect server": "Prefect's server",
        "prefect.engine": "a flow run",
        "prefect flow-run": "a flow run",
        "forkserver": "a process of the cpu lane",
        "multiprocessing": "a process of the cpu lane",
        "worker": "a worker",
    }
    return next((word for sign, word in known.items() if sign in line), "another part")


def _write_dataset(path: Path, version: int) -> None:
    """Write a version of the dataset: most answers stay, some are new, every fifth version has a leak."""
    lines = []
    for number in range(ROWS):
        changed = version if number < NEW_ROWS else 0
        answer = f"Berth {number} is {3 + (number + changed) % 9} metres deep, as of survey {changed}."
        if version % 5 == 4 and number == 0:
            answer = f"Ask Ewan Saltmarsh, social security number 899-47-{2000 + version}."
        question = f"How deep is the harbour at berth {number}?"
        condition = "metres" if number else "Ask|metres"
        row = {"case": f"berth-{number}", "model": "pilot", "question": question, "actual_answer": answer}
        lines.append(json.dumps(row | {"expected_answer": answer, "condition": f'regexp("{condition}")'}))
    draft = path.with_suffix(".tmp")
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(path)


def _deployment(folder: Path, dataset: Path, judge: Remote, every: int, printed: str) -> Path:
    """Write the deployment file with the schedule."""
    content = yaml.safe_load(printed)
    evaluate = next(one for one in content["deployments"] if one["name"] == "evaluate")
    config = {
        "dataset": str(dataset),
        "name": "night",
        "evaluators": list(EVALUATORS),
        "fail_on": "high",
        "judges": {"model": "openai/night", "api_base": judge.url},
    }
    evaluate["schedules"] = [
        {"slug": "nightly", "interval": every, "active": True, "parameters": {"config": config}},
    ]
    file = folder / "night.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return file


def _start(stack: ExitStack, folder: Path, judge: Remote) -> Night:
    """Start the service and return it once it runs."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LEADLINE_", "PREFECT_"))}
    own = {
        "LEADLINE_STORE": str(folder / "store"),
        "XDG_STATE_HOME": str(folder / "state"),
        "OPENAI_API_KEY": "sk-night",
        "PYTHONPATH": str(Path.cwd()),
    }
    log = stack.enter_context((folder / "log").open("wb"))
    process = subprocess.Popen(
        [sys.executable, "-m", "leadline.deployments.service", "start", "--folder", str(folder), "--port", "0"],
        env=kept | own, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=dying_with_us(signal.SIGTERM),
    )  # fmt: skip

    def end() -> None:
        process.terminate()
        process.wait(120)

    stack.callback(end)
    deadline = time.monotonic() + 300
    while not (record := running(folder) or {}).get("api"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "log").read_text())
        time.sleep(0.5)
    written = dict(line.removeprefix("export ").split("=", 1) for line in (folder / "env").read_text().splitlines())
    shell = {key: value.strip("'") for key, value in written.items()}
    return Night(folder, judge, kept | own | shell, str(record["api"]), process.pid)


def _pass(night: Night, minutes: float, every: int, kill_every: float) -> None:
    """Let the night pass: new answers, kills; then a rest in which the last runs end."""
    dataset = night.folder / "answers.jsonl"
    over = threading.Event()

    def write() -> None:
        version = 1
        while not over.wait(every):
            _write_dataset(dataset, version)
            version += 1

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        time.sleep(min(kill_every, max(0.0, end - time.monotonic())))
        night.kill_one()
        print(
            f"{(minutes * 60 - (end - time.monotonic())) / 60:5.1f} min, {sum(night.kills.values())} kills", flush=True
        )
    over.set()
    writer.join()
    deployment = night.ask("GET", "/deployments/name/evaluate/evaluate")
    night.ask("POST", f"/deployments/{deployment['id']}/pause_deployment")
    deadline = time.monotonic() + REST_S
    calm = 0
    while calm < 3 and time.monotonic() < deadline:  # three looks in a row without anything in work
        time.sleep(20)
        waiting = [run for run in night.found("/flow_runs/filter", {}) if run["state_type"] not in ENDED]
        calm = 0 if [run for run in waiting if run["state_name"] != "Scheduled"] else calm + 1
    time.sleep(60)  # alerts about the last ones


def _judged(night: Night) -> list[str]:
    """Print what became of the night, and return what is wrong."""
    runs = night.runs_of("evaluate/evaluate")
    states = Counter(run["state_type"].lower() for run in runs)
    print(f"Runs      {len(runs)}: {_counts(states)}")
    print(f"Kills     {sum(night.kills.values())}: {_counts(night.kills)}")
    records = [json.loads(path.read_text()) for path in (night.folder / "store" / "runs").glob("*/run.json")]
    gates = Counter(str(record.get("gate") or record.get("status")) for record in records)
    print(f"Gates     {_counts(gates)}")

    wrong = _alerts(night, runs, records)
    calls = night.judge.stats().calls
    with psycopg.connect(night.environment["LEADLINE_LEDGER"]) as ledger:
        answered, open_ = (
            int((ledger.execute(query).fetchone() or (0,))[0])
            for query in (
                "SELECT count(*) FROM calls WHERE text IS NOT NULL",
                "SELECT count(*) FROM asks WHERE state <> 'answered'",
            )
        )
    print(f"Judge     {calls} calls for {answered} answers; {open_} calls were in flight at a kill")
    if calls - answered > open_:
        wrong.append(f"{calls - answered} calls repeated, {open_} in flight at kills")
    twice = _computed_twice(night.folder / "store")
    print(f"Scores    {twice[0]} of rows, {twice[1]} of them computed twice, {twice[2]} that differ")
    if twice[2]:
        wrong.append(f"{twice[2]} scores computed twice differ")
    before = _size(night.folder / "store")
    said = night.leadline("gc", "--keep-last", "3", "--yes")
    print(f"Disk      {before / 2**20:.1f} MB before gc, {_size(night.folder / 'store') / 2**20:.1f} MB after")
    print(said.strip())
    return wrong


def _alerts(night: Night, runs: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Print which alerts were right, and return those that are false or missing."""
    bad = {str(run["id"]): run["state_type"] for run in runs if run["state_type"] != "COMPLETED"}
    failing = {str(record["id"]) for record in records if record.get("gate") in ("fail", "inconclusive")}
    told: Counter[str] = Counter()
    wrong = []
    for alert in night.runs_of("alert/alert"):
        event = alert["parameters"]["alert"]
        subject = json.dumps(event["resource"]) + json.dumps(event.get("payload", {}))
        about = [one for one in (*bad, *failing) if one in subject]
        told.update(about)
        if not about and not event["event"].endswith("action.failed"):
            wrong.append(f"false alert: {event['event']} of {event['resource'].get('prefect.resource.name')}")
    missing = [one for one in (*bad, *failing) if not told[one]]
    wrong += [f"no alert about {one} ({bad.get(one, 'gate')})" for one in missing]
    wrong += [f"{count} alerts about {one}" for one, count in told.items() if count > 1]
    print(f"Alerts    {len(told)} right of {len(bad) + len(failing)} due, {len(wrong) - len(missing)} false or double")
    return wrong


def _computed_twice(store: Path) -> tuple[int, int, int]:
    """Return how many row scores are stored, how many more than once, and how many of these with other values."""
    total = twice = differing = 0
    for folder in (store / "scores").glob("*/*"):
        files = [str(path) for path in folder.glob("[!.]*.parquet")]
        if not files:
            continue
        rows = duckdb.execute(
            "SELECT key, trial, count(*), count(DISTINCT hash(*COLUMNS('^m:'))) FROM read_parquet($1) GROUP BY ALL",
            [files],
        ).fetchall()
        total += len(rows)
        twice += sum(count - 1 for *_, count, _ in rows)
        differing += sum(values > 1 for *_, values in rows)
    return total, twice, differing


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items(), key=lambda each: -each[1])) or "none"


def main() -> None:
    """Pass a night and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=40, help="how long")
    parser.add_argument("--every", type=int, default=120, help="seconds between two runs of the schedule")
    parser.add_argument("--kill-every", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--keep", metavar="FOLDER", help="copy logs and store here at the end")
    options = parser.parse_args()
    print(describe())
    with ExitStack() as stack:
        # Not below a private folder: PostgreSQL's user may not enter that.
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-night-", ignore_cleanup_errors=True))
        folder = Path(name)
        folder.chmod(0o755)
        judge = stack.enter_context(endpoint(0.3, 64))
        _write_dataset(folder / "answers.jsonl", 0)
        night = _start(stack, folder, judge)
        file = _deployment(folder, folder / "answers.jsonl", judge, options.every, night.leadline("deploy", "--print"))
        night.leadline("deploy", "--file", str(file))
        try:
            _pass(night, options.minutes, options.every, options.kill_every)
            wrong = _judged(night)
        finally:
            if options.keep:
                shutil.copytree(folder, options.keep, ignore=shutil.ignore_patterns("postgres", "redis"), symlinks=True)
    for line in wrong:
        print(f"WRONG     {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
