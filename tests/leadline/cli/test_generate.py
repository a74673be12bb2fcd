"""``leadline data generate`` as a user runs it: over HTTP, killed, repeated, refused, and its dataset put to use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.main import run as leadline
from leadline.flows import generate
from leadline.tasks.generate import read_corpus
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.author import author
from tests.support.processes.terminal import Terminal
from tests.support.processes.waiting import kill_once

CHUNKS = 24
QUESTIONS = 2
CALLS = CHUNKS * (1 + QUESTIONS)
IN_FLIGHT = 4


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """Twenty-four berths in Markdown and text, a chunk each."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    texts = [f"Berth {n} of the port is {n} m deep. The crane of berth {n} lifts {n} tonnes." for n in range(CHUNKS)]
    for number, text in enumerate(texts[:12]):
        (folder / f"{number}.md").write_text(f"# Berth {number}\n\n{text}\n")
        (folder / f"{number}.txt").write_text(texts[12 + number])
    return folder


@pytest.fixture
def terminal(tmp_path: Path, api: dict[str, str]) -> Terminal:
    return Terminal(tmp_path, api, LEADLINE_JUDGE_API_KEY="key-very-secret-1")


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[JudgeEndpoint]:
    with serving(JudgeEndpoint(reply=author)) as endpoint:
        (tmp_path / "leadline.toml").write_text(
            f'[judges.author]\nmodel = "openai/gpt-x"\napi_base = "{endpoint.url}"\n'
            f"max_in_flight = {IN_FLIGHT}\nstart_in_flight = {IN_FLIGHT}\n"
        )
        yield endpoint


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_killed_generation_is_finished_by_the_same_command(
    handbook: Path, terminal: Terminal, endpoint: JudgeEndpoint
) -> None:
    command = ("data", "generate", "handbook", "--questions", str(QUESTIONS), "--chunk-size", "100", "--overlap", "0")
    endpoint.latency = 0.3
    process = terminal.start(*command, "--json")
    kill_once(lambda: len(endpoint.answered) >= CALLS // 3, process)
    output = terminal.folder / "handbook.questions.jsonl"
    assert not output.exists()
    before = len(endpoint.answered)
    endpoint.latency = 0.0
    result = terminal.json(*command)
    assert (result["chunks"], result["cases"], result["failed"]) == (CHUNKS, CHUNKS * QUESTIONS, 0)
    assert result["reused"] >= before - IN_FLIGHT
    assert result["calls"] + result["reused"] == CALLS
    assert len(endpoint.log) <= CALLS + 2 * IN_FLIGHT
    assert {line.question.key for line in endpoint.log} == {"Bearer key-very-secret-1"}
    for path in terminal.folder.rglob("*"):
        assert not path.is_file() or b"very-secret" not in path.read_bytes(), path

    rows = rows_of(output)
    terminal.run("evaluate", output.name, "-e", "bleu", "--processes", "1")
    (terminal.folder / "app.py").write_text("def answer(case):\n    return {'answer': case.question}\n")
    terminal.run("collect", output.name, "--model", "python:app:answer", "-o", "answers.jsonl")
    answers = rows_of(terminal.folder / "answers.jsonl")
    assert [row["case"] for row in answers] == [row["case"] for row in rows]
    assert answers[0]["metadata"] == rows[0]["metadata"]
    assert answers[0]["expected_documents"] == rows[0]["expected_documents"]


@pytest.mark.e2e
def test_what_failed_and_was_dropped_is_said(handbook: Path, terminal: Terminal, endpoint: JudgeEndpoint) -> None:
    (handbook / "copy.md").write_text((handbook / "0.md").read_text())
    (handbook / "picture.png").write_bytes(b"x")
    command = ("data", "generate", "handbook", "-o", "few.jsonl", "--questions", "1", "--max-chunks", "4")
    done = terminal.run(*command, "--max-calls", "5")
    assert "Left out  " in done.stdout
    assert "5 made" in done.stdout
    assert "Files of other kinds were passed over: 1 .png." in done.stderr
    assert "The budget of 5 calls is spent. Raise --max-calls." in done.stderr
    assert "The same command asks again for what failed." in done.stderr
    assert (terminal.json(*command)["cases"], len(endpoint.log)) == (4, 8)


@pytest.mark.slow
def test_documents_are_read_once(
    handbook: Path, endpoint: JudgeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(generate, "read_corpus", lambda *args, **how: read.append(args) or read_corpus(*args, **how))
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "key-very-secret-1")
    monkeypatch.chdir(tmp_path)
    command = "data generate handbook --judge author --max-chunks 2 --questions 1 --server none".split()
    assert leadline(["--store", "store", "-q", *command]) == 0
    assert len(read) == 1


def test_a_dry_run_asks_nobody(handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leadline(["--store", str(tmp_path / "s"), "data", "generate", str(handbook), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["documents"], told["most_calls"]) == (24, 24 * 4)
    assert leadline(["data", "generate", str(handbook), "--dry-run", "--max-chunks", "3"]) == 0
    assert "24; 3 of 24 chunks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["DOCS"], "needs a judge, and none is named"),
        (["none.md", "--judge", "m"], "none.md: there is no such file"),
        (["BAD", "--judge", "m"], "blank\\x1b.md: it is no UTF-8 text"),
        (["BAD", "--judge", "m"], "The documents were refused: 2 faults."),
        (["DOCS", "--judge", "m", "-o", "DOCS"], "is a folder"),
        (["DOCS", "--judge", "m", "--overlap", "2000"], "more than a quarter"),
        (["DOCS", "--judge", "m", "--encoding", "klingon"], "there is no encoding 'klingon'"),
        (["DOCS", "--judge", "m", "--language", "xx"], "language"),
        (["DOCS", "--judge", "m", "--embedder", "/no/such/folder"], "/no/such/folder"),
        (["DOCS", "--judge", "m", "--judge-api-base", "ftp://h"], "must be an address"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_server_is_waited_for(
    handbook: Path,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_server: None,
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "blank\x1b.md").write_bytes(b"\xc3\x28")
    (bad / "latin\x1b.txt").write_bytes(b"K\xe4se")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_JUDGE", raising=False)
    names = {"DOCS": str(handbook), "BAD": str(bad)}
    given = [names.get(argument, argument) for argument in arguments]
    assert leadline(["--store", str(tmp_path / "store"), "data", "generate", *given]) in (2, 3)
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert "\x1b" not in err
