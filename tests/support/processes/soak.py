"""Random kills of a judged evaluation over real HTTP, until there were enough of them; then what they cost.

``python -m tests.support.processes.soak [KILLS [SEED]]`` prints the figures and fails where a score differs, a call was
repeated that was not in flight at a kill, a process was left behind, or a killed run is not known to be lost.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.descendants import descendants, ended
from tests.support.stores.results import scores_of

KILLS: Final = 50
EVALUATORS: Final = ("databricks.correctness", "databricks.relevance_to_query")
IN_FLIGHT: Final = 16
LATENCY_S: Final = 0.3
BATCH: Final = 60
"""Rows by which the dataset grows when a run ended before it was killed: there is always something left to do."""


@dataclass(frozen=True)
class Figures:
    """What came of the kills.

    Attributes:
        kills: Runs that were killed.
        ended: Runs that ended before their kill.
        while_judging: Kills with calls in flight.
        rows: Rows of the dataset at the end.
        scores: Scores of the last run.
        differing: Scores that differ from those of a run that nobody disturbed.
        calls: Calls that the judge got.
        repeats: Of them, those that it had got before.
        in_flight: Calls that were in flight at the kills, by the ledger.
        lost: Killed runs on record as lost.
        left: Processes left behind by a kill.
        seconds: All of it.
    """

    kills: int
    ended: int
    while_judging: int
    rows: int
    scores: int
    differing: int
    calls: int
    repeats: int
    in_flight: int
    lost: int
    left: int
    seconds: float

    def faults(self) -> list[str]:
        """Return what must not be."""
        checks = {
            "scores differ": self.differing == 0 and self.scores > 0,
            "more calls were repeated than were in flight": self.repeats <= self.in_flight,
            "processes were left behind": self.left == 0,
        }
        return [fault for fault, right in checks.items() if not right]


class Soak:
    """Kills evaluations of a growing dataset in one store.

    Args:
        folder: Where everything lies.
        endpoint: The judge.
        seed: Of the moments of the kills.
    """

    def __init__(self, folder: Path, endpoint: JudgeEndpoint, seed: int) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.rows = self.kills = self.ended = self.judging = self.left = 0
        self._draw = random.Random(seed)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEADLINE_", "PREFECT_"))}
        self._environment = kept | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())}
        (folder / "leadline.toml").write_text(endpoint.toml(max_in_flight=IN_FLIGHT, start_in_flight=IN_FLIGHT))
        self.grow()

    def grow(self) -> None:
        """Add rows to the dataset."""
        self.rows += BATCH
        write_berths(self.folder / "rows.jsonl", self.rows)

    def command(self, store: str) -> list[str]:
        """Return the command that evaluates the dataset."""
        chosen = [part for name in EVALUATORS for part in ("-e", name)]
        leadline = [sys.executable, "-m", "leadline.cli.main", "--store", str(self.folder / store)]
        return [*leadline, "evaluate", str(self.folder / "rows.jsonl"), *chosen, "--server", "none", "--quiet"]

    def kill_one(self) -> None:
        """Run it, and kill it at a random time, or soon after the judge has been asked a random number of times."""
        asked = len(self.endpoint.log)
        after_s = self._draw.uniform(0.2, 5.0)
        after_calls = self._draw.randint(1, 2 * BATCH) if self._draw.random() < 0.7 else None
        process = subprocess.Popen(
            self.command("killed"), cwd=self.folder, env=self._environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        began = time.monotonic()
        while process.poll() is None:
            due = time.monotonic() - began > after_s
            if len(self.endpoint.log) - asked >= after_calls if after_calls is not None else due:
                break
            time.sleep(0.005)
        below = descendants(process.pid)
        judging = self.endpoint.in_flight > 0
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            self.ended += 1
            self.grow()
            return
        self.kills += 1
        self.judging += judging
        self.left += len(ended(below))

    def finish(self, store: str) -> None:
        """Run it to its end."""
        done = subprocess.run(
            self.command(store), cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            raise RuntimeError(done.stderr)


def soak(folder: Path, kills: int, seed: int = 1) -> Figures:
    """Kill evaluations so many times, end the work, and compare it with what nobody disturbed.

    Args:
        folder: An empty folder.
        kills: How many.
        seed: Of the moments of the kills.
    """
    began = time.monotonic()
    with serving(JudgeEndpoint(passing(0.67), latency=LATENCY_S)) as endpoint:
        run = Soak(folder, endpoint, seed)
        while run.kills < kills:
            run.kill_one()
        run.finish("killed")
        asked = Counter(line.question.text for line in endpoint.log)
        run.finish("whole")
    store = Store.open(folder / "killed")
    found, whole = (set(scores_of(each)) for each in (store, Store.open(folder / "whole")))
    lost_calls = sum(bool(ask["lost"]) for ask in read_ledger(store).asks())
    return Figures(
        kills=run.kills,
        ended=run.ended,
        while_judging=run.judging,
        rows=run.rows,
        scores=len(found),
        differing=len(found ^ whole),
        calls=asked.total(),
        repeats=asked.total() - len(asked),
        in_flight=lost_calls,
        lost=sum(summary(known)["status"] == "lost" for known in store.runs()),
        left=run.left,
        seconds=round(time.monotonic() - began, 1),
    )


def main() -> None:
    """Print the figures, and leave with 1 where something must not be."""
    kills, seed = (int(text) for text in (sys.argv[1:] + [str(KILLS), "1"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="leadline-soak-") as folder:
        figures = soak(Path(folder), kills, seed)
    for name, value in asdict(figures).items():
        print(f"{name.replace('_', ' '):14} {value}")
    faults = figures.faults()
    print("; ".join(faults) or "as if nothing had happened")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
