"""An interrupted command says one sentence, and no library of it anything: no leaks, no warnings, no tracebacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.judges.judge_endpoint import JudgeEndpoint, serving

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
    command = [sys.executable, "-m", "leadline.cli.main", "--store", str(folder / "store"), "evaluate"]
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(
        [*command, str(folder / "rows.jsonl"), *arguments, "--server", "none"], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        while not begun():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(number)
        out, error = process.communicate(timeout=100)  # until its last process has closed standard error
    assert out == ""
    return process.returncode, [line for line in error.splitlines() if not line.startswith("scoring")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_pool_of_processes_ends_without_a_word(number: signal.Signals, code: int, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", 4000)
    arguments = ["-e", "bleu,looping_detection", "--processes", "2"]
    segments = (tmp_path / "store").glob
    ended = stop(tmp_path, number, arguments, lambda: any(segments("scores/*/*/[!.]*.parquet")))
    assert ended == (code, [SENTENCE])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_calls_in_flight_end_without_a_word(number: signal.Signals, code: int, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", 200)
    reply = json.dumps({"rationale": "Because.", "rating": "yes"})
    with serving(JudgeEndpoint(lambda _: reply, latency=0.3)) as endpoint:
        (tmp_path / "leadline.toml").write_text(
            f'[judges.scripted]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\nmax_in_flight = 4\n'
        )
        ended = stop(tmp_path, number, ["-e", "databricks.correctness"], lambda: len(endpoint.log) > 8)
    code_of, said = ended
    assert (code_of, said[-1]) == (code, SENTENCE)
    assert [line for line in said[:-1] if not line.startswith("Warning: Stopping: the replies to ")] == []
