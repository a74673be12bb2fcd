"""Commands say nothing of the keys that they were given, however others repeat them."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from leadline.cli import main
from leadline.cli.main import run
from leadline.evaluators.judge_client import client
from leadline.flows.shared.settings import JudgeAccess

KEY = "canary-of-the-command-line"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TEAM_API_KEY", KEY)
    return tmp_path


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_an_error_of_its_own_is_shown_and_logged_without_keys(
    debug: tuple[str, ...], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"it said {KEY}")

    monkeypatch.setattr(main.cli, "invoke", fail)
    assert run([*debug, "store", "runs"]) == 3
    streams = capsys.readouterr()
    assert "RuntimeError: it said [key]" in streams.err
    assert bool(debug) == ("Traceback" in streams.err)
    [log] = (project / "state" / "leadline" / "logs").glob("error-*.log")
    assert "RuntimeError: it said [key]" in log.read_text(encoding="utf-8")
    assert KEY not in streams.err + streams.out + log.read_text(encoding="utf-8")


def test_a_setting_that_holds_a_key_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="model holds the secret in TEAM_API_KEY"):
        JudgeAccess(model=f"openai/{KEY}")
    file = project / "d.jsonl"
    file.write_text(json.dumps({"question": "q", "actual_answer": "a"}), encoding="utf-8")
    given = ["--name", f"nightly {KEY}", "--server", "none"]
    assert run(["evaluate", str(file), "-e", "looping_detection", *given]) == 2
    said = capsys.readouterr().err
    assert "he setting name holds the secret in TEAM_API_KEY" in said
    assert KEY not in said


def test_what_a_model_repeats_is_recorded_without_keys(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_told", set())
    (project / "targets.py").write_text(
        'import os\n\ndef answer(case):\n    raise RuntimeError("with " + os.environ["TEAM_API_KEY"])\n'
        '\ndef echo(case):\n    return "I was sent " + os.environ["TEAM_API_KEY"]\n',
        encoding="utf-8",
    )
    suite = project / "s.jsonl"
    suite.write_text(json.dumps({"question": "q"}), encoding="utf-8")
    models = ["--model", "python:targets:answer", "--model", "python:targets:echo"]
    run(["collect", str(suite), *models, "-o", "answers.jsonl", "--server", "none"])
    answers = (project / "answers.jsonl").read_text(encoding="utf-8")
    assert "with [key]" in answers
    assert "I was sent [key]" in answers
    ledger = sqlite3.connect(project / "store" / "ledger.sqlite")
    assert ledger.execute("SELECT count(*) FROM asks").fetchall() == [(2,)]
    ledger.close()
    everything = [path for path in project.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert [path for path in everything if KEY.encode() in path.read_bytes()] == []
    streams = capsys.readouterr()
    assert KEY not in streams.out + streams.err
    assert "repeats the secret in TEAM_API_KEY" in streams.err


ADDRESS = "//user:canary-in-an-address@127.0.0.1"


@pytest.mark.parametrize(
    "command",
    [
        f"evaluate --plan d.jsonl -e sexism --judge http:{ADDRESS}/v1",
        f"evaluate --plan d.jsonl -e sexism --judge openai/m --judge-api-base http:{ADDRESS}/v1",
        f"evaluate --plan d.jsonl -e bleu --embedder https:{ADDRESS}/m",
        f"evaluate --plan d.jsonl -e bleu --dispatch dask:{ADDRESS}:8786",
        f"evaluate --plan https:{ADDRESS}/d.jsonl -e bleu",
        f"evaluate d.jsonl -e bleu --server none --against https:{ADDRESS}/run",
        f"collect d.jsonl --model http:{ADDRESS}/answer --server none",
        f"service check-version m 1 d.jsonl --set target.api_base=http:{ADDRESS} --server none",
        f"service check-version m 1 d.jsonl --target http:{ADDRESS} --server none",
        f"store runs --store s3:{ADDRESS}/prefix",
        *(
            f"evaluate --plan d.jsonl -e fact_check --judge openai/m --param 'fact_check.search_tool={tool}'"
            for tool in (f"https:{ADDRESS}/s", f"mcp+http:{ADDRESS}/mcp", f"mcp+stdio:server {ADDRESS}")
        ),
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "d.jsonl").write_text(json.dumps({"question": "q", "actual_answer": "a"}), encoding="utf-8")
    assert run(shlex.split(command)) == 2
    streams = capsys.readouterr()
    assert "canary" not in streams.out + streams.err
    assert not [file for file in project.rglob("*") if file.is_file() and b"canary" in file.read_bytes()]


def test_a_judge_of_a_file_with_a_password_in_its_name_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "d.jsonl").write_text(json.dumps({"question": "q", "actual_answer": "a"}), encoding="utf-8")
    (project / "leadline.toml").write_text(f'[judges.own]\nmodel = "http:{ADDRESS}"\n', encoding="utf-8")
    assert run(("evaluate", "--plan", "d.jsonl", "-e", "sexism")) == 2
    assert "must hold no user, password or query" in (said := capsys.readouterr().err)
    assert "canary" not in said
