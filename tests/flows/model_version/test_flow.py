"""New model versions for real: collected over HTTP, evaluated, compared, decided; once each, and after ``kill -9``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.db import open_run
from leadline.tasks.runs.lookup import all_tags
from leadline.tasks.store.store import Store
from tests.flows.evaluate.test_task_graph import History
from tests.support.judges.judge_endpoint import Question, serving
from tests.support.processes.rag_app import TARGET, RagApp
from tests.support.processes.waiting import kill_once

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CASES = 60
IN_FLIGHT = 4


class World:
    """A RAG application, a server, and the flow as processes."""

    def __init__(self, folder: Path, app: RagApp, api: dict[str, str]) -> None:
        self.folder = folder
        self.app = app
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self.environment = kept | {
            **api,
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
            "PYTHONPATH": str(Path.cwd()),
            "HARBOUR_TOKEN": "tok-very-secret-1",
        }
        self.suite = folder / "berths.jsonl"
        cases = [{"case": f"c{n}", "question": f"Berth {n}?", "condition": f'"{n} m"'} for n in range(CASES)]
        self.suite.write_text("".join(json.dumps(case) + "\n" for case in cases))
        address = app.url.removesuffix("/v1") + "/{{ version }}/answer"
        target = {**TARGET, "url": address, "body": {"query": "{{ question }}", "version": "{{ version }}"}}
        target |= {"max_in_flight": IN_FLIGHT, "start_in_flight": IN_FLIGHT, "version": "unknown"}
        (folder / "targets.yaml").write_text(json.dumps({"model": [target]}))  # YAML holds JSON

    def config(self, version: str, **changes: Any) -> str:
        return json.dumps(
            {
                "model": "harbour-rag",
                "version": version,
                "suite": str(self.suite),
                "target": {"file": str(self.folder / "targets.yaml")},
                "evaluators": ["text_matching"],
                "store": str(self.folder / "store"),
                "dispatch": "inline",
                "processes": 1,
            }
            | changes
        )

    def start(self, *configs: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes.version_flow", *configs], env=self.environment,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *configs: str) -> list[dict[str, Any]]:
        process = self.start(*configs)
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def asked(self, version: str) -> Counter[str]:
        """Return how often each question was put to a version."""
        return Counter(line.question.text for line in self.app.log if line.question.body["version"] == version)


def reply(question: Question) -> str:
    """Answer as the version does: v2 is wrong about every third berth."""
    number = int(question.text.removeprefix("Berth ").removesuffix("?"))
    wrong = question.body["version"] == "v2" and number % 3 == 0
    return "I do not know." if wrong else f"It is {number} m."


@pytest.fixture
def world(tmp_path: Path, api: dict[str, str]) -> Iterator[World]:
    app = RagApp(reply=reply)
    with serving(app):
        yield World(tmp_path, app, api)


def test_a_worse_version_fails_with_a_comparison_and_a_repeated_event_costs_nothing(world: World) -> None:
    first, second, repeated, third = world.run(
        world.config("v1"), world.config("v2"), world.config("v2"), world.config("v3")
    )
    assert (first["standing"], first["decision"], first["gate"]) == ("evaluated", "pass", "pass")
    assert (first["baseline"], first["comparison"]) == (None, None)
    assert "no earlier version" in first["reason"]

    assert (second["decision"], second["comparison"], second["baseline"]) == ("fail", "fail", "v1")
    assert second["baseline_run"] == first["run"]
    assert "Text Matching" in second["reason"]
    assert "<html" in Path(second["comparison_report"]).read_text("utf-8").lower()
    assert second["asked"] == CASES

    assert repeated["standing"] == "known"
    assert repeated | {"standing": "", "asked": 0} == second | {"standing": "", "asked": 0}
    assert world.asked("v2").total() == CASES

    assert (third["decision"], third["baseline"]) == ("pass", "v1")  # not the version that failed
    store = Store.open(world.folder / "store")
    assert all_tags(store)["harbour-rag.berths.accepted"][0].id == third["run"]
    assert len(store.runs()) == 3
    with open_run(store, store.run(second["run"]), read_only=True) as connection:
        ((model, version, is_rag),) = connection.execute("SELECT model_key, version, is_rag FROM models").fetchall()
        (durations,) = connection.execute("SELECT count(duration_s) FROM rows").fetchall()[0]
    assert (model, version, is_rag, durations) == ("harbour-rag", "v2", True, CASES)


def test_the_graph_draws_collecting_evaluating_and_comparing_one_after_the_other(world: World) -> None:
    _, second = world.run(world.config("v1"), world.config("v2"))
    url = world.environment["PREFECT_API_URL"]
    record = Store.open(world.folder / "store").run(second["run"]).read()
    found = History(url, record["flow_run"]).graph(4)
    assert found["load berths.jsonl"] == []
    for before, after in pairwise(("load berths.jsonl", "collect", "evaluate", "compare")):
        assert before in found[after]


def test_answers_that_come_with_the_event_are_taken_and_nothing_is_asked(world: World) -> None:
    def answers(name: str, version: str, text: str) -> str:
        rows = [
            {"case": f"c{n}", "model": model, "question": f"Berth {n}?", "condition": f'"{n} m"', "actual_answer": said}
            | ({"model_version": version} if model == "harbour-rag" else {})
            for n in range(CASES)
            for model, said in (("harbour-rag", text.format(n)), ("another", "?"))
        ]
        path = world.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    given = [answers("one.jsonl", "v1", "It is {} m."), answers("two.jsonl", "v2", "No idea.")]
    first, second = world.run(
        world.config("v1", answers=given[0]), world.config("v2", answers=given[1], fail_on="never", baseline="v1")
    )
    assert (first["decision"], first["asked"], first["dataset"]) == ("pass", 0, given[0])
    assert (second["decision"], second["baseline_run"]) == ("fail", first["run"])
    assert "The gate, which does not count here" in second["reason"]
    assert not world.app.log
    process = world.start(world.config("v3", answers=given[1]))
    _, err = process.communicate(timeout=100)
    assert process.returncode != 0
    assert "has the answers of harbour-rag v2, not of v3" in err


def test_a_killed_evaluation_is_taken_over_and_repeats_no_finished_call(world: World) -> None:
    world.app.latency = 0.4
    process = world.start(world.config("v1"))
    kill_once(lambda: len(world.app.answered) >= CASES // 3, process)
    answered = len(world.app.answered)
    assert answered < CASES
    world.app.latency = 0.0
    (result,) = world.run(world.config("v1"))
    assert (result["standing"], result["decision"]) == ("evaluated", "pass")
    asked = world.asked("v1")
    assert len(asked) == CASES
    assert asked.total() <= CASES + 2 * IN_FLIGHT  # what was in flight, and what was answered at that moment
    assert result["asked"] <= CASES - answered + 2 * IN_FLIGHT
    record = json.loads(next((world.folder / "store" / "versions").glob("*/record.json")).read_text())
    assert (record["state"], record["taken_over"]) == ("done", True)
    assert "very-secret" not in json.dumps(record)
