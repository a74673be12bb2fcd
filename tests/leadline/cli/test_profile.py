"""Profiles of whole commands: with a pool of processes, and with a judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.agreeable_judge import in_form
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.processes.trace_format import check_format


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", "store")
    monkeypatch.setenv("LEADLINE_SERVER", "none")


def write_rows(path: Path, count: int) -> str:
    rows = (
        {"case": f"c{n}", "model": "m", "question": "q", "expected_answer": f"a b {n}", "actual_answer": f"a {n}"}
        for n in range(count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def reply(question: Question) -> str:
    schema = question.body.get("response_format", {}).get("json_schema", {}).get("schema")
    return json.dumps(in_form(schema, question.raw) if schema else {"rationale": "So.", "rating": "yes"})


def test_a_profile_has_parts_steps_chunks_evaluators_imports_and_calls(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 3)
    with serving(JudgeEndpoint(reply)) as endpoint:
        judge = ["--judge", "openai/judge", "--judge-api-base", endpoint.url]
        chosen = ["-e", "bleu,databricks.relevance_to_query"]
        assert run(["-q", "evaluate", rows, *chosen, *judge, "--profile", "p.json"]) == 0
        calls = len(endpoint.log)
    events = check_format(tmp_path / "p.json")
    names = {kind: [event["name"] for event in events if event["cat"] == kind] for kind in {e["cat"] for e in events}}
    assert {"start", "load", "plan", "score", "aggregate", "publish", "end"} == set(names["part"])
    assert {"checks", "gather", "gate"} <= set(names["step"])
    assert sorted(names["chunk"]) == ["cpu-0000", "judge-0000"]
    assert sorted(names["evaluator"]) == ["bleu", "databricks.relevance_to_query"]
    assert len(names["call"]) == calls > 0
    parts = sum(event["dur"] for event in events if event["cat"] == "part")
    told = json.loads((tmp_path / "p.json").read_text())["otherData"]["seconds"]
    assert parts / 1e6 == pytest.approx(told, abs=0.5), "it also holds the writing of the record"


@pytest.mark.slow
def test_a_profile_has_the_processes_that_scored(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 2_100)
    assert run(["-q", "evaluate", rows, "-e", "bleu,rouge", "--processes", "2", "--profile", "p.json"]) == 0
    events = check_format(tmp_path / "p.json")
    (own,) = {event["pid"] for event in events if event["cat"] == "part"}
    chunks = [event for event in events if event["cat"] == "chunk"]
    assert len(chunks) > 1
    assert own not in {event["pid"] for event in chunks}
    assert {event["pid"] for event in events if event["cat"] == "evaluator"} == {event["pid"] for event in chunks}
    (score,) = (event for event in events if event["name"] == "score")
    inside = (score["ts"] <= each["ts"] and each["ts"] + each["dur"] <= score["ts"] + score["dur"] for each in chunks)
    assert all(inside), "the clocks of all processes are one"


def test_a_profile_that_cannot_be_written_costs_no_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    dataset = write_rows(tmp_path / "rows.jsonl", 3)
    profile = str(tmp_path / "file" / "profile.json")
    assert run(["evaluate", dataset, "-e", "bleu", "--server", "none", "--profile", profile]) == 0
    said = capsys.readouterr()
    assert "Gate " in said.out
    assert "profile.json could not be written" in said.err
