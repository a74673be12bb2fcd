"""``leadline collect`` and ``check-version`` as a user runs them: over HTTP, killed, repeated, refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.main import run as leadline
from leadline.tasks.runs.versions import Claim, Subject, claim
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.processes.rag_app import TARGET, RagApp
from tests.support.processes.terminal import Terminal
from tests.support.processes.tool_agent import AS_HTTP, ToolAgent, harbour_agent, recorded_booking
from tests.support.processes.waiting import kill_once

CASES = 60
IN_FLIGHT = 4


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """An H2O test suite: it has questions, and no answers."""
    cases = [{"key": f"c{n}", "prompt": f"Berth {n}?", "constraints": [f"{n} m"]} for n in range(CASES)]
    path = tmp_path / "berths.json"
    document = {
        "name": "Berths",
        "tests": [{"key": "t", "documents": ["https://port/berths.pdf"], "test_cases": cases}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def reply(question: Question) -> str:
    return f"{question.text.removeprefix('Berth ').removesuffix('?')} m deep."


@pytest.fixture
def terminal(tmp_path: Path, api: dict[str, str]) -> Terminal:
    return Terminal(tmp_path, api, HARBOUR_TOKEN="tok-very-secret-1")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[RagApp]:
    """A RAG application, and the targets file that says how it is asked."""
    with serving(RagApp(reply=reply)) as app:
        address = app.url.removesuffix("/v1") + "/answer"
        target = {**TARGET, "url": address, "max_in_flight": IN_FLIGHT, "start_in_flight": IN_FLIGHT}
        (tmp_path / "targets.yaml").write_text(json.dumps({"model": [target]}))  # YAML holds JSON
        yield app


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_killed_collection_is_finished_by_the_same_command(suite: Path, terminal: Terminal, app: RagApp) -> None:
    command = ("collect", str(suite), "--targets", "targets.yaml", "-o", "answers.jsonl", "--json")
    app.latency = 0.3
    process = terminal.start(*command)
    kill_once(lambda: len(app.answered) >= CASES // 3, process)
    assert not (terminal.folder / "answers.jsonl").exists()
    before = len(app.answered)
    app.latency = 0.0
    result = json.loads(terminal.run(*command).stdout)
    assert (result["answered"], result["failed"]) == (CASES, 0)
    assert result["reused"] >= before - IN_FLIGHT
    assert len(app.log) <= CASES + 2 * IN_FLIGHT
    rows = [json.loads(line) for line in (terminal.folder / "answers.jsonl").read_text("utf-8").splitlines()]
    assert [row["case"] for row in rows] == [f"c{n}" for n in range(CASES)]
    assert rows[7]["actual_answer"] == "7 m deep."
    assert rows[7]["metadata"] == {"corpus": ["https://port/berths.pdf"], "test_key": "t", "trace": "t-8"}
    for path in terminal.folder.rglob("*"):
        assert not path.is_file() or b"very-secret" not in path.read_bytes(), path


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_killed_conversations_go_on_where_they_were_and_no_reply_is_bought_twice(terminal: Terminal) -> None:
    cases, copies, replies = 20, 3, 4
    suite = terminal.folder / "bookings.jsonl"
    suite.write_text("".join(json.dumps(recorded_booking(n)) + "\n" for n in range(10, 10 + cases)), encoding="utf-8")
    with serving(ToolAgent(reply=harbour_agent, latency=0.1)) as agent:
        target = {"key": "agent", "url": f"{agent.url}/chat/completions", **AS_HTTP, "max_in_flight": IN_FLIGHT}
        (terminal.folder / "agents.yaml").write_text(json.dumps({"model": [target | {"start_in_flight": IN_FLIGHT}]}))
        command = ("collect", str(suite), "--targets", "agents.yaml", "--copies", str(copies), "-o", "held.jsonl")
        process = terminal.start(*command)
        kill_once(lambda: len(agent.answered) >= cases * copies, process)
        agent.latency = 0.0
        result = terminal.json(*command)
    assert (result["answered"], result["failed"]) == (cases * copies, 0)
    assert result["calls"] <= len(agent.log) - cases * copies + IN_FLIGHT, "only what was missing"
    requests = Counter(json.dumps(line.question.body, sort_keys=True) for line in agent.log)
    assert len(requests) == cases * copies * replies
    assert sum(requests.values()) <= len(requests) + IN_FLIGHT, "what was in flight when it was killed"
    rows = [json.loads(line) for line in (terminal.folder / "held.jsonl").read_text("utf-8").splitlines()]
    assert [row["messages"][-1]["content"] for row in rows] == ["Booked."] * cases * copies


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_version_is_checked_by_one_command(suite: Path, terminal: Terminal) -> None:
    with serving(JudgeEndpoint(reply=reply)) as endpoint:
        target = ("--target", "openai/berths-{{ version }}", "--api-base", endpoint.url)
        command = ("service", "check-version", "berths", "v1", str(suite), *target)
        done = terminal.run(*command, "-e", "text_matching", "--set", "processes=1")
    assert "PASS: There is no earlier version" in done.stdout
    assert {line.question.body["model"] for line in endpoint.log} == {"berths-v1"}
    assert len(endpoint.log) == CASES


def test_versions_lists_what_was_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.open(tmp_path / "store")
    assert leadline(["--store", str(store.root), "service", "versions"]) == 0
    assert "No model version was evaluated yet" in capsys.readouterr().err
    for version, decision in (("v1", "pass"), ("v2", "fail")):
        taken = claim(store, Subject("berths", version, "Berths", "digest"), owner={})
        assert isinstance(taken, Claim)
        taken.finish("done", {"decision": decision, "run": f"run-{version}", "baseline": None})
    assert leadline(["--store", str(store.root), "service", "versions", "--model", "berths"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[:6] for line in lines] == [
        ["berths", "v1", "Berths", "done", "pass", "run-v1"],
        ["berths", "v2", "Berths", "done", "fail", "run-v2"],
    ]
    assert leadline(["--store", str(store.root), "service", "versions", "--model", "other", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["collect", "SUITE"], "No model was named"),
        (["collect", "SUITE", "--targets", "none.toml"], "There is no file none.toml"),
        (["collect", "SUITE", "--model", "python:no.such:thing"], "cannot be imported"),
        (["collect", "SUITE", "--model", "x", "-o", "SUITE"], "is the input file"),
        (["collect", "SUITE", "--model", "x-{{ version }}"], "needs a version"),
        (["collect", "SUITE", "--model", "x", "--api-base", "ftp://h"], "must be an address"),
        (["collect", "SUITE", "--model", "x", "--model-version", "a b"], "version"),
        (["collect", "none.json", "--model", "openai/x"], "there is no such file"),
        (
            ["collect", "SUITE", "--model", "http://h", "--on-unrecorded", "live"],
            "need both: --on-unrecorded live or simulate, --tool-source M",
        ),
        (["collect", "SUITE", "--model", "mcp+stdio:no-such-program"], "'no-such-program' is not on this machine"),
        (["collect", "SUITE", "--model", "nosuch"], "LiteLLM knows no provider for the model 'nosuch'"),
        (["service", "check-version", "m", "v1", "SUITE", "--target", "nosuch"], "LiteLLM knows no provider"),
        (["service", "check-version", "m", "v1", "SUITE"], "No target is configured for the model 'm'"),
        (["service", "check-version", "m", "v 1", "SUITE", "--target", "x"], "version"),
        (["service", "check-version", "m", "v1", "SUITE", "--target", "x", "--set", "nonsense=1"], "nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    suite: Path,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_server: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(suite) if argument == "SUITE" else argument for argument in arguments]
    assert leadline(["--store", str(tmp_path / "store"), *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
