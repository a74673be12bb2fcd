"""The command line with the real flow, a real server and real signals, in processes of its own."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

LEADLINE = [sys.executable, "-P", "-m", "leadline.flows.cli.main"]
WORDS = ("the", "tide", "gauge", "on", "lantern", "mole", "takes", "a", "reading", "every", "six", "minutes", "and")


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LEADLINE_"))}
    return kept | {
        "PREFECT_HOME": str(home),
        "LEADLINE_STORE": str(tmp_path / "store"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def write_dataset(path: Path, cases: int, *, good: bool = True) -> Path:
    chance = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(cases):
            expected = " ".join(chance.choices(WORDS, k=20))
            record = {
                "case": f"c{number}",
                "model": "m",
                "question": f"What is {number}?",
                "expected_answer": expected,
                "actual_answer": expected if good else "nothing of that",
            }
            file.write(json.dumps(record) + "\n")
    return path


def leadline(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LEADLINE, *arguments], capture_output=True, text=True, env=environment, timeout=110)


def test_a_dataset_is_evaluated_once_and_reused_then(environment: dict[str, str], home: Path, tmp_path: Path) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 10))
    choice = ["-e", "bleu,rouge", "--fail-on", "high"]
    assert "20 are to compute" in leadline(environment, "plan", dataset, *choice).stdout

    first = leadline(environment, "evaluate", dataset, *choice, "-o", str(tmp_path / "out"), "--json")
    assert first.returncode == 0, first.stderr
    outcome = json.loads(first.stdout)
    assert (outcome["gate"], outcome["reused"], outcome["computed"]) == ("pass", 0, 20)
    assert Path(outcome["report"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert (tmp_path / "out" / "report.html").exists()
    assert first.stderr.splitlines() == [
        line for line in first.stderr.splitlines() if re.match("Starting|scoring", line)
    ]

    assert "20 row scores are reused, 0 are to compute" in leadline(environment, "plan", dataset, *choice).stdout
    second = leadline(environment, "--quiet", "evaluate", dataset, *choice)
    assert second.returncode == 0, second.stderr
    assert second.stderr == ""
    assert "20 row scores reused, 0 computed" in second.stdout

    runs = json.loads(leadline(environment, "runs", "--json").stdout)
    assert [run["status"] for run in runs] == ["completed", "completed"]
    assert runs[1]["run"] == outcome["run"]
    assert "bleu_1" in leadline(environment, "show", "latest").stdout
    counted = leadline(environment, "sql", "SELECT run, count(*) FROM scores GROUP BY run", "--format", "csv").stdout
    assert len(counted.splitlines()) == 3
    for suffix in ("html", "json", "csv", "parquet", "md", "xml"):
        assert leadline(environment, "export", "latest", "-o", str(tmp_path / f"x.{suffix}")).returncode == 0
    with sqlite3.connect(home / "prefect.db") as database:
        flows = database.execute("SELECT state_type FROM flow_run").fetchall()
        states = database.execute("SELECT DISTINCT state_type FROM task_run").fetchall()
    assert flows == [("COMPLETED",), ("COMPLETED",)]
    assert states == [("COMPLETED",)]


def test_a_gate_that_fails_has_exit_code_one(environment: dict[str, str], api: dict[str, str], tmp_path: Path) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 10, good=False))
    done = leadline(environment | api, "evaluate", dataset, "-e", "rouge", "--fail-on", "high")
    assert done.returncode == 1, done.stderr
    assert "The gate failed" in done.stderr
    assert "Report" in done.stdout


@pytest.mark.parametrize("content", ["", "{", '{"case": "a"}', '[{"model": 3}]', "\ud800"])
def test_a_bad_dataset_is_refused_without_a_server(environment: dict[str, str], tmp_path: Path, content: str) -> None:
    dataset = tmp_path / "d.json"
    dataset.write_bytes(content.encode("utf-8", "surrogatepass"))
    done = leadline(environment, "evaluate", str(dataset))
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(dataset) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dataset_that_is_not_there_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    done = leadline(environment, "evaluate", str(tmp_path / "none.json"))
    assert done.returncode == 2
    assert "none.json" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_keeps_its_finished_chunks(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 6000))
    arguments = ["-e", "bleu,rouge", "--processes", "2"]
    with subprocess.Popen(
        [*LEADLINE, "evaluate", dataset, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        until_first_chunk(tmp_path / "store")
        os.killpg(process.pid, number)  # as a terminal does
        out, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert out == ""
    said = [line for line in error.splitlines() if not line.startswith(("scoring", "Starting"))]
    assert said == ["Interrupted. Finished chunks are kept: the same command goes on from there."]
    assert [run["status"] for run in json.loads(leadline(environment, "runs", "--json").stdout)] == ["interrupted"]
    planned = json.loads(leadline(environment, "plan", dataset, *arguments, "--json").stdout)
    assert all(entry["reused"] > 0 for entry in planned["entries"])
    assert any(entry["to_compute"] > 0 for entry in planned["entries"])


def until_first_chunk(store: Path) -> None:
    """Wait until a chunk's segments are in the store."""
    import time

    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        folders: Sequence[Path] = [path.parent for path in store.glob("scores/*/*/[!.]*.parquet")]
        if len({folder.parent for folder in folders}) == 2:
            return
        time.sleep(0.02)
    raise AssertionError("no chunk was finished in time")
