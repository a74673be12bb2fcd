"""What is refused before a server is started, and in which words."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core.errors import UsageError
from leadline.flows.cli.main import run
from leadline.flows.prefect_server import resolve

SUITE = '{"key": "c1", "question": "Q?", "expected_answer": "A", "model": "m", "actual_answer": "A"}\n'


class FakeServer(resolve.TemporaryServer):
    """Notes that it was started and ended."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.ended = False
        started.append(self)

    def wait(self, timeout: float = 0.0) -> str:
        return "http://127.0.0.1:9/api"

    def stop(self) -> bool:
        self.ended = True
        return True


started: list[FakeServer] = []


@pytest.fixture(autouse=True)
def _away_from_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("PREFECT_API_URL", "LEADLINE_JUDGE", "LEADLINE_TARGETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resolve, "TemporaryServer", FakeServer)
    monkeypatch.setattr(resolve, "running", lambda: None)
    (tmp_path / "broken.json").write_text('{"question": ')
    (tmp_path / "broken.csv").write_text("question,actual_answer\nonly one cell\n")
    (tmp_path / "suite.jsonl").write_text(SUITE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate", "nowhere.json"], "nowhere.json: there is no such file"),
        (["evaluate", "broken.json"], "broken.json, row 1: broken JSON"),
        (["evaluate", "broken.csv"], "broken.csv"),
        (["evaluate", "suite.jsonl", "-e", "bleau"], "bleau"),
        (["evaluate", "suite.jsonl", "-e", "bleu", "--param", "bleu.nonsense=1"], "there is no such parameter"),
        (["evaluate", "suite.jsonl", "--model", "other"], "Its models: m."),
        (["evaluate", "suite.jsonl", "--language", "x"], "--language: 'x' is not allowed; it must have at least 2"),
        (["plan", "nowhere.json"], "there is no such file"),
        (["collect", "nowhere.json", "--model", "python:json:dumps"], "there is no such file"),
        (["collect", "suite.jsonl", "--targets", "nowhere.toml"], "nowhere.toml"),
        (["generate", "nowhere.md", "--judge", "openai/gpt-x"], "nowhere.md"),
        (["perturb", "nowhere.json", "--with", "typo"], "there is no such file"),
        (["perturb", "suite.jsonl", "--with", "nonsense"], "no perturbation called 'nonsense'"),
        (["check-version", "m", "1", "nowhere.json", "--target", "python:json:dumps"], "there is no such file"),
        (["check-version", "m", "1", "suite.jsonl", "-e", "bleau"], "bleau"),
        (["check-version", "m", "1", "suite.jsonl", "--set", "foo=1"], "--set foo=1: there is no such field; there"),
        (
            ["check-version", "m", "1", "suite.jsonl", "--set", "marginn=1"],
            "marginn=1: there is no such field; did",
        ),
        (
            ["check-version", "m", "1", "suite.jsonl", "--set", "judges.max_cost=-2"],
            "--set judges.max_cost=-2: -2 is not allowed; it must be at least 0.",
        ),
        (
            ["check-version", "m", "1", "suite.jsonl", "--set", "fail_on=hi"],
            "--set fail_on=hi: 'hi' is none of 'high', 'medium' or 'never'.",
        ),
        (["emit", "model-version", "m", "--version", "1", "--suite", "s", "--set", "foo=1"], "foo: there is no such"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_server_is_started(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "CHECK_FIRST_S", 60.0)  # this machine may be slow
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert "Prefect server" not in streams.err
    assert "permitted" not in streams.err
    assert streams.out == ""
    assert started == []


def test_a_server_starts_by_itself_beside_a_check_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "CHECK_FIRST_S", 0.01)
    waiting = threading.Event()
    monkeypatch.setattr(resolve, "_server_environment", lambda: waiting.set() or {})

    def long_check() -> None:
        assert waiting.wait(30)

    with resolve.ensure_api(lambda _: None, first=long_check) as api:
        assert api.kind == "temporary"
        assert len(started) == 1
    assert started[0].ended


def test_a_server_that_was_started_ends_when_the_check_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "CHECK_FIRST_S", 0.01)
    waiting = threading.Event()
    monkeypatch.setattr(resolve, "_server_environment", lambda: waiting.set() or {})

    def refuse() -> None:
        assert waiting.wait(30)
        raise UsageError("No.")

    with pytest.raises(UsageError, match="No"), resolve.ensure_api(lambda _: None, first=refuse):
        pytest.fail("the block was entered")
    assert all(each.ended for each in started)


def test_the_check_comes_before_the_search_and_the_rest_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[Any] = []
    first, meanwhile = (lambda: order.append(len(started))), (lambda: order.append(len(started)))
    with resolve.ensure_api(lambda _: None, first=first, meanwhile=meanwhile):
        assert order == [0, 1]
