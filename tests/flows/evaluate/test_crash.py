"""What ``kill -9`` costs: the chunks in work, and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.tasks.store.store import Store
from tests.support.processes.descendants import descendants, ended
from tests.support.processes.waiting import eventually
from tests.support.stores.results import scores_of

EVALUATORS = ("bleu", "rouge", "valor.rouge", "looping_detection")
ROWS = 3000
WORDS = "tide berth pilot mooring channel lighthouse cargo vessel harbour anchor quay depth sounding lead line".split()


def write_answers(path: Path, count: int) -> None:
    draw = random.Random(3)
    lines = []
    for number in range(count):
        expected = " ".join(draw.choice(WORDS) for _ in range(60))
        actual = " ".join(draw.choice(WORDS) for _ in range(60))
        lines.append({"case": f"c{number}", "model": "m", "question": "?", "expected_answer": expected,
                      "actual_answer": f"{actual}. {expected[:150]}."})  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def command(dataset: Path, store: Path) -> list[str]:
    chosen = [part for name in EVALUATORS for part in ("-e", name)]
    return [sys.executable, "-m", "leadline.cli.main", "--store", str(store), "evaluate", str(dataset), *chosen]


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_killed_run_is_finished_by_the_same_command_and_repeats_no_finished_chunk(
    tmp_path: Path, api: dict[str, str]
) -> None:
    dataset = tmp_path / "answers.jsonl"
    write_answers(dataset, ROWS)
    environment = os.environ | api | {"XDG_STATE_HOME": str(tmp_path / "state")}
    killed, whole = tmp_path / "killed", tmp_path / "whole"

    process = subprocess.Popen(
        command(dataset, killed), env=environment, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    eventually(lambda: len(list(killed.glob("scores/*/*/[!.]*.parquet"))) >= len(EVALUATORS), 120, "segments", process)
    below = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(below) > 2, "a forkserver, its processes"
    assert ended(below) == [], "no process is left behind"
    finished = {path: path.stat().st_mtime_ns for path in killed.glob("scores/*/*/[!.]*.parquet")}

    for store in (killed, whole):
        subprocess.run(command(dataset, store), env=environment, check=True, capture_output=True, timeout=200)

    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    last = Store.open(killed).runs()[-1].read()
    assert 0 < last["computed"] < last["computed"] + last["reused"] == ROWS * len(EVALUATORS)
    assert last["reused"] >= 500
    assert scores_of(Store.open(killed)) == scores_of(Store.open(whole))
