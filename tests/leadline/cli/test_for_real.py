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
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.processes import fork_server
from tests.support.processes.ports import free_port
from tests.support.processes.prefect_api import prefect_api
from tests.support.processes.terminal import Terminal
from tests.support.processes.waiting import eventually

pytestmark = pytest.mark.e2e

WORDS = ("the", "tide", "gauge", "on", "lantern", "mole", "takes", "a", "reading", "every", "six", "minutes", "and")


@pytest.fixture
def terminal(home: Path, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, PREFECT_HOME=str(home), LEADLINE_STORE=str(tmp_path / "store"))


def write_dataset(path: Path, cases: int) -> Path:
    chance = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(cases):
            expected = " ".join(chance.choices(WORDS, k=20))
            record = {
                "case": f"c{number}",
                "model": "m",
                "question": f"What is {number}?",
                "expected_answer": expected,
                "actual_answer": expected,
            }
            file.write(json.dumps(record) + "\n")
    return path


def test_a_dataset_is_evaluated_once_and_reused_then(terminal: Terminal, home: Path, tmp_path: Path) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 10))
    terminal.environment[fork_server.SWITCH] = "0"  # here the commands really start
    choice = ["-e", "bleu,rouge", "--policy", "sonar", "--fail-on", "high"]
    assert "20 are to compute" in terminal.run("evaluate", "--plan", dataset, *choice).stdout

    with prefect_api(home) as api:
        terminal.environment["PREFECT_API_URL"] = api
        first = terminal.run("evaluate", dataset, *choice, "-o", str(tmp_path / "out"), "--json")
    del terminal.environment["PREFECT_API_URL"]
    outcome = json.loads(first.stdout)
    assert (outcome["gate"], outcome["reused"], outcome["computed"]) == ("pass", 0, 20)
    assert Path(outcome["report"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert (tmp_path / "out" / "report.html").exists()
    assert [line for line in first.stderr.splitlines() if not line.startswith("scoring")] == []

    planned = terminal.run("evaluate", "--plan", dataset, *choice).stdout
    assert "20 row scores are reused, 0 are to compute" in planned
    second = terminal.run("--quiet", "evaluate", dataset, *choice)
    assert second.stderr == ""
    assert "20 row scores reused, 0 computed" in second.stdout

    del terminal.environment[fork_server.SWITCH]
    runs = terminal.json("store", "runs")
    assert [run["status"] for run in runs] == ["completed", "completed"]
    assert runs[1]["run"] == outcome["run"]
    assert "bleu_1" in terminal.run("show", "latest").stdout
    counted = terminal.run("store", "sql", "SELECT run, count(*) FROM scores GROUP BY run", "--format", "csv").stdout
    assert len(counted.splitlines()) == 3
    terminal.run("store", "export", "latest", "-o", str(tmp_path / "x.html"))
    with sqlite3.connect(home / "prefect.db") as database:
        flows = database.execute("SELECT state_type FROM flow_run").fetchall()
        states = database.execute("SELECT DISTINCT state_type FROM task_run").fetchall()
    assert flows == [("COMPLETED",)]  # the second run did without
    assert states == [("COMPLETED",)]


VARYING = {
    "run", "created", "started", "finished", "seconds", "chunk_seconds", "evaluator_seconds", "time", "report",
    "process", "id", "at", "duration", "flow_run", "analysis",
}  # fmt: skip

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of evaluators, drawn from the run's name


def lasting(value: Any, run: str) -> Any:
    """Return what a run left without its name, its times and its processes."""
    if isinstance(value, dict):
        return {name: lasting(part, run) for name, part in value.items() if name not in VARYING}
    if isinstance(value, list):
        return [lasting(part, run) for part in value]
    return UUID.sub("ID", value.replace(run, "RUN")) if isinstance(value, str) else value


def test_a_run_leaves_the_same_with_a_server_and_with_none(terminal: Terminal, home: Path, tmp_path: Path) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 20))
    left = []
    terminal.run("service", "server", "start", "--port", str(free_port()))
    for way in ("auto", "none"):
        terminal.environment["LEADLINE_STORE"] = str(tmp_path / way)
        folder = Path(terminal.json("evaluate", dataset, "-e", "bleu,rouge", "--server", way)["folder"])
        files = sorted(
            lasting(str(path.relative_to(folder)), folder.name) for path in folder.rglob("*") if path.is_file()
        )
        texts = {
            path.name: lasting(json.loads(path.read_text(encoding="utf-8")), folder.name)
            for path in (folder / "run.json", folder / "results" / "report.json")
        }
        scores = duckdb.sql(f"FROM '{folder}/results/scores.parquet' ORDER BY ALL").fetchall()
        left.append((files, texts, scores))
    terminal.run("service", "server", "stop")
    assert scores
    assert left[0] == left[1]
    with sqlite3.connect(home / "prefect.db") as database:
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("COMPLETED",)]


def test_without_a_server_nothing_of_prefect_is_imported_and_no_process_started(
    terminal: Terminal, tmp_path: Path
) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 10))
    script = (
        "import subprocess, sys\n"
        "def refuse(*_, **__): raise AssertionError('a process')\n"
        "subprocess.Popen.__init__ = refuse\n"
        "from leadline.cli import main\n"
        "code = main.run(sys.argv[1:])\n"
        "print(code, sorted(name for name in sys.modules if name.partition('.')[0] == 'prefect'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "evaluate", dataset, "-e", "bleu"],
        capture_output=True, text=True, env=terminal.environment | {"CI": ""}, timeout=110,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("scoring")]
    assert said == ["No Prefect server: this run is not in a UI. Start one with: leadline service server start"]


@pytest.mark.parametrize(("number", "code", "server"), [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, True)])
def test_a_run_that_is_stopped_keeps_its_finished_chunks(
    terminal: Terminal, api: dict[str, str], tmp_path: Path, number: signal.Signals, code: int, server: bool
) -> None:
    dataset = str(write_dataset(tmp_path / "d.jsonl", 6000))
    arguments = ["evaluate", dataset, "-e", "bleu,rouge", "--processes", "2"]
    terminal.environment |= api if server else {}
    with terminal.start(*arguments) as process:
        segments = (tmp_path / "store").glob
        eventually(
            lambda: len({path.parents[1] for path in segments("scores/*/*/[!.]*.parquet")}) == 2, 90, "a chunk", process
        )
        os.killpg(process.pid, number)  # as a terminal does
        out, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert out == ""
    said = [line for line in error.splitlines() if not line.startswith("scoring")]
    assert said == ["Interrupted. Finished chunks are kept: the same command goes on from there."]
    assert [run["status"] for run in terminal.json("store", "runs")] == ["interrupted"]
    planned = terminal.json(*arguments, "--plan")
    assert all(entry["reused"] > 0 for entry in planned["entries"])
    assert any(entry["to_compute"] > 0 for entry in planned["entries"])
