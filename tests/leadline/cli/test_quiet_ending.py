"""An interrupted command says one sentence, and no library of it anything: no leaks, no warnings, no tracebacks."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.judges.berths import passing
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.terminal import Terminal
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

SENTENCE = "Interrupted. Finished chunks are kept: the same command goes on from there."


def write_rows(path: Path, count: int) -> Path:
    rows = [
        {"case": f"c{n}", "model": "m", "question": f"How deep is berth {n}?", "expected_answer": f"{n} m " * 40,
         "actual_answer": f"It is {n} m. " * 40}
        for n in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def stop(
    folder: Path, number: signal.Signals, arguments: list[str], begun: Callable[[], bool]
) -> tuple[int, list[str]]:
    """Run an evaluation, signal its process alone once it has begun, and return the exit code and what was said."""
    command = ("evaluate", "rows.jsonl", *arguments, "--server", "none", "--store", "store")
    with Terminal(folder).start(*command) as process:
        eventually(begun, 100, "the run has begun", process)
        process.send_signal(number)
        out, error = process.communicate(timeout=100)  # until its last process has closed standard error
    assert out == ""
    return process.returncode, [line for line in error.splitlines() if not line.startswith("scoring")]


def test_a_pool_of_processes_ends_without_a_word(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", 4000)
    arguments = ["-e", "bleu,looping_detection", "--processes", "2"]
    segments = (tmp_path / "store").glob
    ended = stop(tmp_path, signal.SIGTERM, arguments, lambda: any(segments("scores/*/*/[!.]*.parquet")))
    assert ended == (143, [SENTENCE])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_calls_in_flight_end_without_a_word(number: signal.Signals, code: int, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", 200)
    with serving(JudgeEndpoint(passing(1.0), latency=0.3)) as endpoint:
        (tmp_path / "leadline.toml").write_text(endpoint.toml(max_in_flight=4))
        ended = stop(tmp_path, number, ["-e", "databricks.correctness"], lambda: len(endpoint.log) > 8)
    code_of, said = ended
    assert (code_of, said[-1]) == (code, SENTENCE)
    assert [line for line in said[:-1] if not line.startswith("Warning: Stopping: the replies to ")] == []
