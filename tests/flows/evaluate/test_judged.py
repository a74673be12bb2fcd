"""Judged runs by the command line, over real HTTP: killed, left without a judge, kept within a budget, looked at."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.db import open_run
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.agreeable_judge import in_form
from tests.support.judges.judge_endpoint import SILENT, Fault, JudgeEndpoint, Question, broken, serving
from tests.support.models.tiny_models import WORDS, make_embedder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EVALUATORS = ("databricks.correctness", "databricks.relevance_to_query")
ROWS = 60
IN_FLIGHT = 8

Run = Callable[..., subprocess.CompletedProcess[str]]


def reply(question: Question) -> str:
    rating = "yes" if hashlib.sha256(question.text.encode()).digest()[0] % 3 else "no"
    return json.dumps({"rationale": "Because of the harbour.", "rating": rating})


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [
        {
            "case": f"c{n}",
            "model": "m",
            "question": f"How deep is berth {n}?",
            "expected_answer": f"{n} m",
            "actual_answer": f"It is {n} m.",
        }
        for n in range(ROWS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class Bench:
    """A folder with a judge's configuration in which ``leadline`` is run."""

    def __init__(self, folder: Path, api: dict[str, str], endpoint: JudgeEndpoint, structured: str = "auto") -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self.environment = kept | api | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())}
        (folder / "leadline.toml").write_text(
            f'[judges.scripted]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\nmax_in_flight = {IN_FLIGHT}\n'
            f'start_in_flight = {IN_FLIGHT}\ndown_after_s = 1.0\nstructured = "{structured}"\n'
        )

    def command(self, *arguments: str, store: str = "store") -> list[str]:
        return [sys.executable, "-m", "leadline.cli.main", "--store", str(self.folder / store), *arguments]

    def run(self, *arguments: str, store: str = "store") -> str:
        done = subprocess.run(
            self.command(*arguments, store=store), cwd=self.folder, env=self.environment, capture_output=True,
            text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, store: str = "store") -> Any:
        return json.loads(self.run(*arguments, "--json", store=store))

    def evaluate(self, dataset: Path) -> list[str]:
        return ["evaluate", str(dataset), *(part for name in EVALUATORS for part in ("-e", name))]

    def store(self, name: str = "store") -> Store:
        return Store.open(self.folder / name)


def scores(store: Store) -> list[tuple[Any, ...]]:
    """Return all scores of the latest run."""
    with open_run(store, store.runs()[-1], read_only=True) as connection:
        return connection.execute(
            "SELECT metric, case_key, status::VARCHAR, reason, value FROM scores JOIN metrics USING (metric_id) "
            "JOIN rows USING (row_id) JOIN cases USING (case_id) ORDER BY ALL"
        ).fetchall()


def findings(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return the aggregates and problems of the latest run: what its report says."""
    with open_run(store, store.runs()[-1], read_only=True) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in ("aggregates", "problems")
        ]


def test_a_judged_run_that_is_killed_twice_ends_as_if_nothing_had_happened(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    with serving(JudgeEndpoint(reply, latency=0.15)) as endpoint:
        bench = Bench(tmp_path, api, endpoint)
        whole = bench.json(*bench.evaluate(dataset), store="whole")
        asked = len(endpoint.log)
        for share in (0.3, 0.7):
            kill_at(bench, bench.evaluate(dataset), endpoint, round(asked * (1 + share)))
        last = bench.json(*bench.evaluate(dataset))
    assert scores(bench.store()) == scores(bench.store("whole"))
    assert findings(bench.store()) == findings(bench.store("whole"))
    assert Path(last["report"]).exists()
    assert (last["scored"], last["gate"]) == (whole["scored"], whole["gate"])
    finished = Counter(ask["digest"] for ask in read_ledger(bench.store()).asks() if ask["state"] == "answered")
    assert set(finished.values()) == {1}
    assert len(finished) == asked
    assert len(endpoint.log) - 2 * asked <= 2 * IN_FLIGHT
    assert last["judge_made_again"] <= 2 * IN_FLIGHT


def test_a_run_that_is_killed_while_rows_are_judged_again_judges_the_same_rows_and_pays_for_none_twice(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    for number, row in enumerate(rows[ROWS // 2 :]):
        row["relationships"] = [{"type": "perturbation_source", "target": f"c{number}", "perturbation": "typo"}]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with serving(JudgeEndpoint(reply, latency=0.15)) as endpoint:
        bench = Bench(tmp_path, api, endpoint)
        command = [*bench.evaluate(dataset), "--trials", "2", "--trial-rows", "auto"]
        whole = bench.json(*command, store="whole")
        asked = len(endpoint.log)
        assert asked > len(EVALUATORS) * ROWS + 2 * IN_FLIGHT
        kill_at(bench, command, endpoint, asked + len(EVALUATORS) * ROWS + IN_FLIGHT)
        last = bench.json(*command)
    tables = ("scores", "repeats", "judged_again", "flip_rates")
    for table in tables:
        found = []
        for store in (bench.store(), bench.store("whole")):
            with open_run(store, store.runs()[-1], read_only=True) as connection:
                found.append(connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall())
        assert found[0]
        assert found[0] == found[1]
    assert (last["scored"], last["gate"]) == (whole["scored"], whole["gate"])
    finished = Counter(ask["digest"] for ask in read_ledger(bench.store()).asks() if ask["state"] == "answered")
    assert set(finished.values()) == {1}
    assert len(finished) == asked


def kill_at(bench: Bench, arguments: list[str], endpoint: JudgeEndpoint, answered: int) -> None:
    """Run a command and kill it once the endpoint has given so many replies; soon after them it falls silent."""
    silent_from = answered + 2 * IN_FLIGHT  # so that no run ends before a slow test has killed it
    endpoint.fault = lambda question: SILENT if question.number >= silent_from else None
    process = subprocess.Popen(
        bench.command(*arguments), cwd=bench.folder, env=bench.environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(endpoint.answered) < answered:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    endpoint.fault = lambda question: None


def test_scores_with_embeddings_in_them_are_the_same_to_the_last_bit_after_a_kill(
    tmp_path: Path, api: dict[str, str]
) -> None:
    draw = random.Random(5)
    dataset = tmp_path / "rows.jsonl"
    rows = [
        {"case": f"c{n}", "model": "m", "expected_answer": some_words(draw), "actual_answer": some_words(draw)}
        for n in range(ROWS)
    ]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    embedder = make_embedder(tmp_path / "embedder")

    def agree(question: Question) -> str:
        return json.dumps(in_form(question.body["response_format"]["json_schema"]["schema"], question.text))

    with serving(JudgeEndpoint(agree, latency=0.1)) as endpoint:
        bench = Bench(tmp_path, api, endpoint, structured="json_schema")
        command = ["evaluate", str(dataset), "-e", "answer_correctness", "--embedder", str(embedder)]
        bench.run(*command, store="whole")
        kill_at(bench, command, endpoint, round(1.6 * len(endpoint.log)))
        bench.run(*command)
    assert scores(bench.store()) == scores(bench.store("whole"))
    assert len({line[4] for line in scores(bench.store())}) > 50, "similarities that differ from row to row"
    assert findings(bench.store()) == findings(bench.store("whole"))


def some_words(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))


def test_without_its_judge_a_run_is_published_and_a_later_one_asks_for_what_is_missing(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    with serving(JudgeEndpoint(reply, down_from=50)) as endpoint:
        bench = Bench(tmp_path, api, endpoint)
        planned = {
            entry["evaluator"]: entry
            for entry in bench.json("evaluate", "--plan", *bench.evaluate(dataset)[1:])["entries"]
        }
        assert {entry["judge_calls"] for entry in planned.values()} == {ROWS}
        assert {entry["cost_usd"] for entry in planned.values()} == {None}, "an unknown price is not 0"

        first = bench.json(*bench.evaluate(dataset))
        assert Path(first["report"]).exists()
        states = Counter(line[2:4] for line in scores(bench.store()))
        assert states == {("scored", None): 50, ("unscored", "judge_unavailable"): 2 * ROWS - 50}
        assert first["judge_calls"] == first["judge_unknown_price"] == 50
        failed = bench.json("judges", "calls", "--failed")
        assert failed
        assert {ask["state"] for ask in failed} == {"failed"}

        endpoint.down_from = None
        second = bench.json(*bench.evaluate(dataset))
        assert second["unscored"] == 0
        assert second["computed"] == 2 * ROWS - 50
        assert set(Counter(endpoint.answered).values()) == {1}

        asked = len(endpoint.log)
        assert bench.json("judges", "reparse", second["run"])["unscored"] == 0
        assert len(endpoint.log) == asked
        shown = bench.run("judges", "calls", bench.json("judges", "calls")[0]["digest"][:10])
        assert "How deep is berth" in shown
        assert "Because of the harbour." in shown
        totals = {
            line["evaluator"]: line["answered"]
            for line in bench.json("judges", "calls", "--totals", "--run", first["run"])
        }
        assert sum(totals.values()) == 50
        assert str(second["run"]) in bench.run("judges", "calls", "--totals")


def test_a_judge_that_is_restarted_on_the_way_costs_no_score(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    gone_since: list[float] = []

    def fault(question: Question) -> Fault | None:
        if question.number >= 50 and not gone_since:
            gone_since.append(time.monotonic())
        return broken(503) if gone_since and time.monotonic() - gone_since[0] < 4 else None

    with serving(JudgeEndpoint(reply, fault=fault)) as endpoint:
        bench = Bench(tmp_path, api, endpoint)
        result = bench.json(*bench.evaluate(dataset))
    assert result["unscored"] == 0
    assert result["judge_calls"] == 2 * ROWS
    assert bench.json("judges", "calls", "--failed"), "the judge was not away long enough to make a chunk fail"
