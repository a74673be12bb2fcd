"""A night of the service: a schedule, a judge over HTTP, and a killer that ends a random process every minute.

Run: ``python -m benchmarks.night --minutes 40``, on an otherwise idle machine with PostgreSQL and Redis. It starts the
service in a folder of its own, deploys ``evaluate`` with a schedule, writes new answers into the dataset between runs
(every fifth time one that leaks a number, which must fail the gate), and kills. At the end it waits until everything
has come to rest and prints what became of the runs, which alerts were right, which were false and which are missing,
what was computed or asked twice, and what `leadline store gc` gives back. It leaves with 1 if anything was lost, done
twice without need, or told wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.live_service import ENDED, LiveService, counts, repeated_calls, repeated_scores, serving, size_of
from benchmarks.machine import describe

ROWS: Final = 120
NEW_ROWS: Final = 40
"""Answers that are new in each version of the dataset."""

EVALUATORS: Final = ("bleu", "rouge", "text_matching", "pii_leakage", "databricks.safety")
REST_S: Final = 900.0
"""Longest wait for the last runs and alerts after the last kill."""
LOOK_S: Final = 20.0
"""Seconds between two looks at what is still in work."""
ALERTS_S: Final = 60.0
"""Seconds for alerts about the last runs."""

WORDS: Final = {
    "redis-server": "Redis",
    "postgres": "PostgreSQL",
    "prefect server": "Prefect's server",
    "prefect.engine": "a flow run",
    "prefect flow-run": "a flow run",
    "forkserver": "a process of the cpu lane",
    "multiprocessing": "a process of the cpu lane",
    "worker": "a worker",
}
"""What a process is, by what stands in its command."""


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
    return next((word for sign, word in WORDS.items() if sign in line), "another part")


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


def _kill_one(service: LiveService, draw: random.Random) -> str:
    """Kill a random process of a random kind of the service's, and return the kind."""
    below = _below(service.supervisor)
    word = draw.choice(sorted({word for _, word in below}))
    pid = draw.choice([pid for pid, kind in below if kind == word])
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return word


def _pass(service: LiveService, minutes: float, every: int, kill_every: float) -> Counter[str]:
    """Let the night pass: new answers, kills; then a rest in which the last runs end.

    Args:
        service: The service.
        minutes: How long.
        every: Seconds between two versions of the dataset.
        kill_every: Seconds between two kills.

    Returns:
        What was killed.
    """
    over = threading.Event()

    def write() -> None:
        version = 1
        while not over.wait(every):
            _write_dataset(service.folder / "answers.jsonl", version)
            version += 1

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    draw, kills = random.Random(2026), Counter[str]()
    end = time.monotonic() + minutes * 60
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(kill_every, left))
        kills[_kill_one(service, draw)] += 1
        print(f"{minutes - (end - time.monotonic()) / 60:5.1f} min, {kills.total()} kills", flush=True)
    over.set()
    writer.join()
    deployment = service.ask("GET", "/deployments/name/evaluate/evaluate")
    service.ask("POST", f"/deployments/{deployment['id']}/pause_deployment")
    deadline = time.monotonic() + REST_S
    calm = 0
    while calm < 3 and time.monotonic() < deadline:  # three looks in a row without anything in work
        time.sleep(LOOK_S)
        waiting = [run for run in service.found("/flow_runs/filter", {}) if run["state_type"] not in ENDED]
        calm = 0 if [run for run in waiting if run["state_name"] != "Scheduled"] else calm + 1
    time.sleep(ALERTS_S)
    return kills


def _told(service: LiveService, kills: Mapping[str, int]) -> list[str]:
    """Print what became of the night, and return what is wrong."""
    runs = service.runs_of("evaluate/evaluate")
    print(f"Kills     {sum(kills.values())}: {counts(kills)}")
    print(f"Runs      {len(runs)}: {counts(Counter(run['state_type'].lower() for run in runs))}")
    records = [json.loads(path.read_text()) for path in (service.store / "runs").glob("*/run.json")]
    print(f"Gates     {counts(Counter(str(record.get('gate') or record.get('status')) for record in records))}")
    wrong = _alerts(service, runs, records) + repeated_calls(service) + repeated_scores(service)
    before = size_of(service.store)
    said = service.leadline("store", "gc", "--keep-last", "3", "--yes").strip()
    print(f"Disk      {before / 2**20:.1f} MB before gc, {size_of(service.store) / 2**20:.1f} MB after\n{said}")
    return wrong


def _alerts(service: LiveService, runs: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Print which alerts were right, and return those that are false, double or missing.

    Args:
        service: The service.
        runs: Flow runs of ``evaluate``.
        records: What the store's runs say of themselves.
    """
    due = {str(run["id"]): run["state_type"].lower() for run in runs if run["state_type"] != "COMPLETED"}
    ended = (record for record in records if record.get("status") == "completed")  # of a killed run its flow run tells
    due |= {str(record["id"]): record["gate"] for record in ended if record.get("gate") in ("fail", "inconclusive")}
    told: Counter[str] = Counter()
    wrong = []
    for alert in service.runs_of("alert/alert"):
        event = alert["parameters"]["alert"]
        about = [one for one in due if one in json.dumps(event)]
        told.update(about)
        if not about and not event["event"].endswith("action.failed"):
            wrong.append(f"false alert: {event['event']} of {event['resource'].get('prefect.resource.name')}")
    wrong += [f"{count} alerts about {one}" for one, count in told.items() if count > 1]
    print(f"Alerts    {len(told)} right of {len(due)} due, {len(wrong)} false or double")
    return wrong + [f"no alert about {one}: {what}" for one, what in due.items() if not told[one]]


def main() -> None:
    """Pass a night and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=40, help="how long")
    parser.add_argument("--every", type=int, default=120, help="seconds between two runs of the schedule")
    parser.add_argument("--kill-every", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--keep", metavar="FOLDER", help="copy logs and store here at the end")
    options = parser.parse_args()
    print(describe())
    with serving() as service:
        dataset = service.folder / "answers.jsonl"
        _write_dataset(dataset, 0)
        config = service.config(dataset, "night", EVALUATORS)
        schedule = {"slug": "nightly", "interval": options.every, "active": True, "parameters": {"config": config}}
        service.deploy(schedules=[schedule])
        try:
            wrong = _told(service, _pass(service, options.minutes, options.every, options.kill_every))
        finally:
            if options.keep:
                unread = shutil.ignore_patterns("postgres", "redis")
                shutil.copytree(service.folder, options.keep, ignore=unread, symlinks=True)
    for line in wrong:
        print(f"WRONG     {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
