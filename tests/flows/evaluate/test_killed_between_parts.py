"""Runs whose plan has several parts, by the command line: killed in each of them and started again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.flows.evaluate.test_flip_causes import MisreadingJudge
from tests.flows.evaluate.test_flip_causes import write as write_pairs
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.terminal import Terminal
from tests.support.stores.results import tables_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS: Final = 400
IN_FLIGHT: Final = 4
STOPPING: Final = ("--fail-on", "high", "--stop-when", "decided")
FLIP_CAUSES: Final = ("--trials", "2", "--trial-rows", "auto", "--attribute-flips")


class Bench(Terminal):
    """``leadline evaluate`` without Prefect, in a folder with a judge's configuration."""

    def __init__(self, folder: Path, dataset: Path, endpoint: JudgeEndpoint, *options: str) -> None:
        super().__init__(folder)
        self.endpoint = endpoint
        (folder / "leadline.toml").write_text(endpoint.toml(max_in_flight=IN_FLIGHT, start_in_flight=IN_FLIGHT))
        chosen = ("-e", "databricks.correctness", "--judge", "scripted", "--server", "none")
        self.command = ("evaluate", str(dataset), *chosen, *options, "--store")

    def asked(self, first: int = 0) -> Counter[str]:
        """Return how often each question was answered, from a call on."""
        return Counter(line.question.text for line in self.endpoint.log[first:] if line.answered)


def test_a_killed_run_that_is_started_again_decides_the_same_and_asks_no_question_twice(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", ROWS)
    with serving(JudgeEndpoint(passing(0.86), latency=0.02)) as endpoint:
        bench = Bench(tmp_path, dataset, endpoint, *STOPPING)
        whole = bench.run(*bench.command, "whole").stdout
        asked = len(endpoint.log)
        assert 75 <= asked < ROWS, "it went on for more than one wave"
        for share in (0.5, 0.9):
            bench.kill_after(endpoint, round(asked * (1 + share)), *bench.command, "killed")
        last = bench.run(*bench.command, "killed").stdout
        again = bench.asked(asked)
    assert tables_of(bench.store("killed"), "stopping") == tables_of(bench.store("whole"), "stopping")
    decided = [line for line in whole.splitlines() if line.startswith("Judging")]
    assert decided[0].split()[1:3] == ["Decided", "PASS"]
    assert [line for line in last.splitlines() if line.startswith("Judging")] == decided
    assert len(again) == asked, "no case beyond the decision was ever asked about"
    assert sum(again.values()) - asked <= 2 * IN_FLIGHT, "only what was in flight when it was killed"


def test_a_run_that_is_killed_in_each_of_its_parts_pays_for_none_of_them_twice(tmp_path: Path) -> None:
    dataset = write_pairs(tmp_path / "rows.jsonl")
    with serving(JudgeEndpoint(MisreadingJudge(), latency=0.02)) as endpoint:
        bench = Bench(tmp_path, dataset, endpoint, *FLIP_CAUSES)
        bench.run(*bench.command, "whole")
        asked = bench.asked()
        total = len(endpoint.log)
        first, repeated = map(len, tables_of(bench.store("whole"), "scores", "repeats").values())
        further, third = first + repeated, sum(asked.values())
        assert first < further < third
        for enough in (first, (first + further) // 2, further, (further + third) // 2):
            bench.kill_after(endpoint, total + enough, *bench.command, "killed")
        bench.run(*bench.command, "killed")
        again = bench.asked(total)
    tables = ("flip_rates", "flip_causes", "repeats", "aggregates")
    assert tables_of(bench.store("killed"), *tables) == tables_of(bench.store("whole"), *tables)
    assert asked <= again, "every question of each part"
    assert (again - asked).total() <= 4 * IN_FLIGHT, "only what was in flight when it was killed"
