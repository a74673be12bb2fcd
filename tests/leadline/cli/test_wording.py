"""How the command line reads: plain texts, times to the second, labels, help for every option, one warning."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from leadline.cli.judges.calls import _print_asks
from leadline.cli.main import run
from leadline.evaluators.core import all_evaluators
from leadline.evaluators.ground import UsageError
from leadline.flows.collect import Collect
from leadline.flows.command.output import moment, plain_text, print_table
from leadline.tasks.store.store import Store
from tests.support.docs.commands import all_commands
from tests.support.stores.runs import make_run

RUN = "20260101-100000-aaaaaa"
MARKUP = re.compile(r"`|\*\*|:\w+:`|::$", re.MULTILINE)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("LEADLINE_LEDGER", raising=False)
    return Store.open(tmp_path / "store")


def test_every_option_of_every_command_has_help() -> None:
    for path, command in all_commands().items():
        for option in command.params:
            if isinstance(option, click.Option):
                assert (option.help or "").strip(), f"{' '.join(path)} {option.opts[0]}"


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("``S(a, c)`` is `one`", "S(a, c) is one"),
        ("see :func:`~leadline.tasks.load.load` and :mod:`leadline.tasks.load`", "see load and leadline.tasks.load"),
        ("**Method.** so::\n\n    a * b\n", "Method. so:\n\n    a * b\n"),
        ("* one\n  * two", "- one\n  - two"),
        ("[a page](https://a.b/c)", "a page (https://a.b/c)"),
        ("2 ** 3 and a*b*c", "2 ** 3 and a*b*c"),
    ],
)
def test_markup_reads_as_words(marked: str, plain: str) -> None:
    assert plain_text(marked) == plain


def test_no_evaluator_is_shown_with_markup(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for name in all_evaluators():
        assert run(["evaluators", "show", name]) == 0
        shown = capsys.readouterr().out
        assert not MARKUP.search(shown), name


def test_times_are_to_the_second_and_what_is_none_is_left_alone() -> None:
    assert moment("2026-03-01T10:20:30.123456") == "2026-03-01 10:20:30"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", moment("2026-03-01T10:20:30.123456+00:00"))
    assert [moment(value) for value in ("soon", "", None)] == ["soon", "", ""]


def test_a_tag_is_told_to_the_second_and_as_json_in_full(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(store, RUN)
    assert run(["store", "tag", RUN, "production", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tag": "production", "run": RUN, "before": None}
    assert run(["store", "tag"]) == 0
    assert "." not in capsys.readouterr().out.splitlines()[2]
    assert run(["store", "tag", "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert "." in line["since"]
    assert run(["store", "tag", RUN, "production", "--remove", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tag": "production", "run": None, "before": RUN}


def test_versions_are_told_to_the_second(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"model": "m", "version": "1", "suite": "s", "state": "done", "finished": "2026-03-01T10:20:30.123456"}
    monkeypatch.setattr("leadline.cli.service.check_version.records", lambda _: [record])
    assert run(["service", "versions"]) == 0
    assert "2026-03-01 10:20:30" in (shown := capsys.readouterr().out)
    assert "123456" not in shown
    assert run(["service", "versions", "--json"]) == 0
    assert "10:20:30.123456" in capsys.readouterr().out


def test_calls_name_who_was_asked_be_it_judge_or_model(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = dict.fromkeys(("tries", "seconds", "cost_usd", "input_tokens", "output_tokens"))
    texts = {"digest": "d" * 32, "purpose": "collect:m", "model": "m", "state": "answered", "error": None}
    _print_asks([{**numbers, **texts, "intended_at": 0.0, "lost": False, "problem": None}])
    heading = capsys.readouterr().out.splitlines()[0]
    assert heading.split()[:5] == ["call", "when", "for", "asked", "state"]


def test_a_ledger_that_cannot_be_reached_is_said_before_anybody_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.jsonl").write_text('{"question": "How deep is the harbour?"}\n')
    (tmp_path / "asked_app.py").write_text("def answer(case):\n    open('asked', 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_LEDGER", "postgresql://127.0.0.1:1/d")
    answers = tmp_path / "answers.jsonl"
    command = ["collect", str(tmp_path / "s.jsonl"), "--model", "python:asked_app:answer", "-o", str(answers)]
    assert run(command) == 3
    assert "[LL-LEDGER-" in capsys.readouterr().err
    assert not answers.exists()
    assert not (tmp_path / "asked").exists()


def test_a_bucket_without_a_shared_ledger_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LEADLINE_LEDGER", raising=False)
    monkeypatch.setattr(Collect, "check", lambda *_: None)
    monkeypatch.setattr(Collect, "notices", Mock(side_effect=UsageError("That is all.")))
    command = ["--store", "s3://bucket/store", "collect", "s.jsonl", "--server", "none"]
    assert run(command) == 2
    assert capsys.readouterr().err.count("LEADLINE_LEDGER") == 1
    assert run(["-q", *command]) == 2
    assert "LEADLINE_LEDGER" not in capsys.readouterr().err


def test_a_folder_is_not_warned_of(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judges", "calls"]) == 0
    assert "LEADLINE_LEDGER" not in capsys.readouterr().err


def test_a_table_for_programs_has_no_blanks_at_its_lines_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "long heading"), [("x", "y"), ("a long cell", "")])
    assert all(line == line.rstrip() for line in capsys.readouterr().out.splitlines())
