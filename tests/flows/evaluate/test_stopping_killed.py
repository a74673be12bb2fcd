"""A run that stops when decided, by the command line: killed between waves and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from leadline.tasks.db.connection import open_run
from leadline.tasks.store.store import Store
from tests.flows.evaluate.test_stopping import passing, write_cases
from tests.support.judges.judge_endpoint import SILENT, JudgeEndpoint, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS = 400
IN_FLIGHT = 4


def command(folder: Path, store: str, dataset: Path, endpoint: JudgeEndpoint) -> list[str]:
    return [
        sys.executable, "-m", "leadline.flows.cli.main", "--store", str(folder / store), "evaluate", str(dataset),
        "-e", "databricks.correctness", "--judge", "scripted", "--fail-on", "high", "--stop-when", "decided",
        "--server", "none",
    ]  # fmt: skip


def looks(store: Store) -> list[tuple[object, ...]]:
    with open_run(store, store.runs()[-1], read_only=True) as connection:
        return connection.execute("FROM stopping ORDER BY wave").fetchall()


def test_a_killed_run_that_is_started_again_decides_the_same_and_asks_no_question_twice(tmp_path: Path) -> None:
    dataset = write_cases(tmp_path / "rows.jsonl", ROWS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
    environment |= {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(Path.cwd())}

    with serving(JudgeEndpoint(passing(0.86), latency=0.02)) as endpoint:
        (tmp_path / "leadline.toml").write_text(
            f'[judges.scripted]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\n'
            f"max_in_flight = {IN_FLIGHT}\nstart_in_flight = {IN_FLIGHT}\n"
        )

        def run(store: str) -> str:
            done = subprocess.run(
                command(tmp_path, store, dataset, endpoint), cwd=tmp_path, env=environment, capture_output=True,
                text=True, timeout=200, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        whole = run("whole")
        asked = len(endpoint.log)
        assert 75 <= asked < ROWS, "it went on for more than one wave"
        for share in (0.5, 0.9):
            enough = round(asked * (1 + share))
            silent_from = enough + 2 * IN_FLIGHT  # so that no run ends before a slow test has killed it
            endpoint.fault = lambda question, silent_from=silent_from: (
                SILENT if question.number >= silent_from else None
            )
            process = subprocess.Popen(
                command(tmp_path, "killed", dataset, endpoint), cwd=tmp_path, env=environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            until = time.monotonic() + 120
            while len(endpoint.answered) < enough:
                assert process.poll() is None, "the run ended before it could be killed"
                assert time.monotonic() < until
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
            endpoint.fault = lambda question: None
        last = run("killed")
        again = Counter(line.question.text for line in endpoint.log[asked:] if line.answered)
    assert looks(Store.open(tmp_path / "killed")) == looks(Store.open(tmp_path / "whole"))
    decided = [line for line in whole.splitlines() if line.startswith("Judging")]
    assert decided[0].split()[1:3] == ["Decided", "PASS"]
    assert [line for line in last.splitlines() if line.startswith("Judging")] == decided
    assert len(again) == asked, "no case beyond the decision was ever asked about"
    assert sum(again.values()) - asked <= 2 * IN_FLIGHT, "only what was in flight when it was killed"
