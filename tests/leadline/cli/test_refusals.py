"""What is refused before anything is run, and in which words."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from leadline.cli.main import run
from leadline.flows.command.running import stoppable

SUITE = '{"key": "c1", "question": "Q?", "expected_answer": "A", "model": "m", "actual_answer": "A"}\n'


@pytest.fixture(autouse=True)
def _away_from_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("PREFECT_API_URL", "LEADLINE_JUDGE", "LEADLINE_TARGETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("leadline.flows.prefect.server.ensure_api", None)
    (tmp_path / "broken.json").write_text('{"question": ')
    (tmp_path / "broken.csv").write_text("question,actual_answer\nonly one cell\n")
    (tmp_path / "suite.jsonl").write_text(SUITE)


def test_an_interruption_that_a_library_made_an_error_of_is_one_all_the_same() -> None:
    error = ValueError("Error calling function")
    with pytest.raises(ValueError, match="Error calling"), stoppable("Interrupted."):
        raise error
    with pytest.raises(click.exceptions.Exit) as ending, stoppable("Interrupted."):
        raise error from KeyboardInterrupt()  # as Pydantic does
    assert ending.value.exit_code == 130


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
        (
            "evaluate suite.jsonl -e answer_relevancy --judge openai/fake --judge-api-base http://127.0.0.1:9/v1 "
            "--max-cost 2".split(),
            "The price of the judge 'openai/fake' is unknown, so a cost limit (--max-cost, month_cost) allows no call.",
        ),
        (
            "evaluate nowhere.json -e faithfulness --judge openai/fake --max-cost 2".split(),
            'Write into its table [judges.default] of leadline.toml, with model = "openai/fake", the two lines '
            "input_cost_per_token = 1.5e-7 and output_cost_per_token = 6e-7,",
        ),
        (
            "data generate nowhere.md --judge openai/fake --max-cost 2".split(),
            "The price of the judge 'openai/fake' is unknown, so a cost limit",
        ),
        (
            "collect nowhere.json --model openai/fake --max-cost 2".split(),
            "Write into its table [[model]] of a targets file the two lines input_cost_per_token = 1.5e-7 and output_",
        ),
        (
            "collect nowhere.json --model http://127.0.0.1:9/ --max-cost 2".split(),
            "table [[model]] of a targets file the line call_cost_usd = 0.01, the most that one call of it costs",
        ),
        (
            "service check-version m 1 nowhere.json --target openai/fake -e bleu --set max_cost=2".split(),
            "The price of the model 'm' is unknown, so a cost limit",
        ),
        (["evaluate", "--plan", "nowhere.json"], "there is no such file"),
        (["collect", "suite.jsonl", "--targets", "nowhere.toml"], "nowhere.toml"),
        (["data", "perturb", "nowhere.json", "--with", "typo"], "there is no such file"),
        (["data", "perturb", "suite.jsonl", "--with", "nonsense"], "no perturbation called 'nonsense'"),
        (
            ["service", "check-version", "m", "1", "nowhere.json", "--target", "python:json:dumps"],
            "there is no such file",
        ),
        (["service", "check-version", "m", "1", "suite.jsonl", "-e", "bleau"], "bleau"),
        (
            ["service", "check-version", "m", "1", "suite.jsonl", "--set", "foo=1"],
            "--set foo=1: there is no such field; there",
        ),
        (
            ["service", "check-version", "m", "1", "suite.jsonl", "--set", "marginn=1"],
            "marginn=1: there is no such field; did",
        ),
        (
            ["service", "check-version", "m", "1", "suite.jsonl", "--set", "judges.max_cost=-2"],
            "--set judges.max_cost=-2: -2 is not allowed; it must be at least 0.",
        ),
        (
            ["service", "check-version", "m", "1", "suite.jsonl", "--set", "fail_on=hi"],
            "--set fail_on=hi: 'hi' is none of 'high', 'medium' or 'never'.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_run(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert "Prefect server" not in streams.err
    assert "permitted" not in streams.err
    assert streams.out == ""


def test_a_field_of_the_table_server_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leadline.toml").write_text('[server]\nusee = "none"\n')
    assert run(["evaluate", "suite.jsonl", "-e", "bleu"]) == 2
    assert "[server] usee: there is no such field" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["info"], ["verify"], ["gc", "--yes"], ["migrate"], ["backup", "copy.tar"]])
def test_a_store_that_is_not_there_is_refused_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run(["store", *command, "--store", "mistyped"]) == 2
    assert f"There is no store in {tmp_path / 'mistyped'}." in capsys.readouterr().err
    assert not [tmp_path / name for name in ("mistyped", "copy.tar") if (tmp_path / name).exists()]
