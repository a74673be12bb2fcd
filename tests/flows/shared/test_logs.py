"""Log lines as JSON: from commands, from Prefect's runs on workers, with what they belong to and without keys."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.flows.command.session import _Relay
from leadline.flows.shared.logs import LONGEST, JsonLines, json_line, prefect_environment, wants_json
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as

RUN_OF_PREFECT = """
from prefect.logging import get_logger
from prefect.logging.configuration import setup_logging
setup_logging()
get_logger("engine").error("two\\nlines")
"""


@pytest.fixture(autouse=True)
def _json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_LOG_FORMAT", "json")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def record(message: str, level: int = logging.WARNING, **more: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "leadline.store", "levelno": level, "levelname": logging.getLevelName(level),
                                  "msg": message, **more})  # fmt: skip


def test_a_line_says_when_who_and_what_it_belongs_to() -> None:
    with logged_as(log_context.run, "run1"), logged_as(log_context.evaluator, "bleu"):
        (line,) = lines(JsonLines().format(record("Disk is\nfull", created=1_798_700_000.5)))
    assert line == {
        "time": "2026-12-31T06:53:20.500+00:00",
        "level": "warning",
        "logger": "leadline.store",
        "run": "run1",
        "evaluator": "bleu",
        "message": "Disk is full",
    }


def test_what_is_not_known_is_left_out_and_an_exception_has_its_type() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        (line,) = lines(JsonLines().format(record("It failed", exc_info=sys.exc_info())))
    assert line.keys() == {"time", "level", "logger", "error", "message"}
    assert line["error"] == "KeyError"


def test_no_key_and_no_endless_text_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOUR_API_KEY", "canary-4711-harbour")
    text = json_line("refused: canary-4711-harbour " + "x " * 10_000 + "\x1b[31m", "info", "a")
    assert "canary-4711" not in text
    assert len(json.loads(text)["message"]) <= LONGEST
    assert text.isascii()
    assert "\x1b" not in text


def test_a_command_writes_nothing_else_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"case": f"c{n}", "model": "m", "expected_answer": "a b", "actual_answer": "a b"} for n in range(3)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run(["--store", "store", "evaluate", "rows.jsonl", "-e", "bleu", "--server", "none", "--json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["run"]
    said = lines(streams.err)
    assert said
    assert {line["logger"] for line in said} == {"leadline.cli"}
    assert run(["--store", "store", "evaluate", "nothing.jsonl", "--server", "none"]) == 2
    (error,) = lines(capsys.readouterr().err)
    assert error["level"] == "error"
    assert "LL-" in error["message"]


def test_warnings_of_a_run_say_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    with logged_as(log_context.run, "run1"):
        _Relay().emit(record("Something odd"))
    (line,) = lines(capsys.readouterr().err)
    assert (line["run"], line["logger"], line["level"]) == ("run1", "leadline.store", "warning")


@pytest.mark.slow
def test_prefects_processes_write_json_too(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = {**kept, **prefect_environment(), "PREFECT_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN_OF_PREFECT], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    (line,) = lines(done.stderr)
    assert (line["logger"], line["level"], line["message"]) == ("prefect.engine", "error", "two lines")


def test_an_unknown_format_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADLINE_LOG_FORMAT", "xml")
    with pytest.raises(UsageError, match="plain and json"):
        wants_json()
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", "rows.jsonl", "--server", "none"]) == 2
    assert "LEADLINE_LOG_FORMAT" in capsys.readouterr().err


def test_plain_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEADLINE_LOG_FORMAT")
    assert not wants_json()
    assert prefect_environment() == {}
