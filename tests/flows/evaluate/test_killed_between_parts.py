"""Runs whose plan has several parts, by the command line: killed in each of them and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.tasks.db import open_run
from leadline.tasks.store.store import Store
from tests.flows.evaluate.test_flip_causes import MisreadingJudge
from tests.flows.evaluate.test_flip_causes import write as write_pairs
from tests.flows.evaluate.test_stopping import passing, write_cases
from tests.support.judges.judge_endpoint import SILENT, JudgeEndpoint, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS: Final = 400
IN_FLIGHT: Final = 4
STOPPING: Final = ("--fail-on", "high", "--stop-when", "decided")
FLIP_CAUSES: Final = ("--trials", "2", "--trial-rows", "auto", "--attribute-flips")


class Bench:
    """``leadline evaluate`` without Prefect, in a folder with a judge's configuration."""

    def __init__(self, folder: Path, dataset: Path, endpoint: JudgeEndpoint, options: Sequence[str]) -> None:
        self.folder, self.dataset, self.endpoint, self.options = folder, dataset, endpoint, options
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self.environment = kept | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())}
        (folder / "leadline.toml").write_text(
            f'[judges.scripted]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\n'
            f"max_in_flight = {IN_FLIGHT}\nstart_in_flight = {IN_FLIGHT}\n"
        )

    def _command(self, store: str) -> list[str]:
        return [
            sys.executable, "-m", "leadline.cli.main", "--store", str(self.folder / store), "evaluate",
            str(self.dataset), "-e", "databricks.correctness", "--judge", "scripted", "--server", "none",
            *self.options,
        ]  # fmt: skip

    def run(self, store: str) -> str:
        done = subprocess.run(
            self._command(store), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_and_kill(self, store: str, answers: int) -> None:
        """Kill a run once the judge has given so many answers in all."""
        # Silent from then on, so that no run ends before a slow test has killed it.
        self.endpoint.fault = lambda _: SILENT if len(self.endpoint.answered) >= answers else None
        process = subprocess.Popen(
            self._command(store), cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + 120
        while len(self.endpoint.answered) < answers:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < until
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        self.endpoint.fault = lambda _: None

    def found(self, store: str, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return tables of a store's latest run."""
        opened = Store.open(self.folder / store)
        with open_run(opened, opened.runs()[-1], read_only=True) as connection:
            return {name: connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in tables}

    def asked(self, first: int = 0) -> Counter[str]:
        """Return how often each question was answered, from a call on."""
        return Counter(line.question.text for line in self.endpoint.log[first:] if line.answered)


def test_a_killed_run_that_is_started_again_decides_the_same_and_asks_no_question_twice(tmp_path: Path) -> None:
    dataset = write_cases(tmp_path / "rows.jsonl", ROWS)
    with serving(JudgeEndpoint(passing(0.86), latency=0.02)) as endpoint:
        bench = Bench(tmp_path, dataset, endpoint, STOPPING)
        whole = bench.run("whole")
        asked = len(endpoint.log)
        assert 75 <= asked < ROWS, "it went on for more than one wave"
        for share in (0.5, 0.9):
            bench.run_and_kill("killed", round(asked * (1 + share)))
        last = bench.run("killed")
        again = bench.asked(asked)
    assert bench.found("killed", "stopping") == bench.found("whole", "stopping")
    decided = [line for line in whole.splitlines() if line.startswith("Judging")]
    assert decided[0].split()[1:3] == ["Decided", "PASS"]
    assert [line for line in last.splitlines() if line.startswith("Judging")] == decided
    assert len(again) == asked, "no case beyond the decision was ever asked about"
    assert sum(again.values()) - asked <= 2 * IN_FLIGHT, "only what was in flight when it was killed"


def test_a_run_that_is_killed_in_each_of_its_parts_pays_for_none_of_them_twice(tmp_path: Path) -> None:
    dataset = write_pairs(tmp_path / "rows.jsonl")
    with serving(JudgeEndpoint(MisreadingJudge(), latency=0.02)) as endpoint:
        bench = Bench(tmp_path, dataset, endpoint, FLIP_CAUSES)
        bench.run("whole")
        asked = bench.asked()
        total = len(endpoint.log)
        (first,), (repeated,) = (
            bench.found("whole", f"(SELECT count(*) FROM {table})").popitem()[1] for table in ("scores", "repeats")
        )
        further, third = first[0] + repeated[0], sum(asked.values())
        assert first[0] < further < third
        for enough in (first[0], (first[0] + further) // 2, further, (further + third) // 2):
            bench.run_and_kill("killed", total + enough)
        bench.run("killed")
        again = bench.asked(total)
    tables = ("flip_rates", "flip_causes", "repeats", "aggregates")
    assert bench.found("killed", *tables) == bench.found("whole", *tables)
    assert asked <= again, "every question of each part"
    assert (again - asked).total() <= 4 * IN_FLIGHT, "only what was in flight when it was killed"
