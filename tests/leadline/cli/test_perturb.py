"""``leadline data perturb``, with a judge over real HTTP where one is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.judge_endpoint import JudgeEndpoint, broken, serving


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    path = tmp_path / "suite.jsonl"
    cases = [{"case": f"c{n}", "question": f"Why is gate {n} closed today?"} for n in range(3)]
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_path_is_the_result_and_the_rest_is_said(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = suite.parent / "out.jsonl"
    assert run(["data", "perturb", str(suite), "--with", "typo:low", "--with", "qwerty", "-o", str(output)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(output)
    assert "typo:low: 3 copies" in said.err
    assert len(read(output)) == 3 + 3 + 3
    assert run(["data", "perturb", "--list"]) == 0
    assert "misinformation" in capsys.readouterr().out


def test_a_program_reads_the_number_of_copies_by_recipe(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = suite.parent / "out.jsonl"
    assert run(["data", "perturb", str(suite), "--with", "typo:low", "--copies", "2", "-o", str(output), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"cases": 3, "copies": {"typo:low": 6}, "unchanged": {}, "failed": {}, "suite": str(output)}


def test_misinformation_is_written_once_and_read_from_the_ledger_then(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(question: object) -> str:
        return "Gates close at noon since the flood."

    command = ["data", "perturb", str(suite), "--with", "misinformation", "--judge", "openai/judge", "-o"]
    with serving(JudgeEndpoint(reply)) as endpoint:
        at = ["--judge-api-base", endpoint.url]
        assert run([*command, str(suite.parent / "a.jsonl"), *at]) == 0
        assert run([*command, str(suite.parent / "b.jsonl"), *at]) == 0
        assert len(endpoint.log) == 3
        assert sum("Why is gate 0 closed today?" in line.question.raw for line in endpoint.log) == 1
    first, second = read(suite.parent / "a.jsonl"), read(suite.parent / "b.jsonl")
    assert first == second
    copies = [case["question"] for case in first if "~" in case["case"]]
    assert copies == [f"Gates close at noon since the flood.\n\nWhy is gate {n} closed today?" for n in range(3)]
    assert "Error" not in capsys.readouterr().err


def test_a_copy_that_the_judge_did_not_write_is_left_out_and_said(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = suite.parent / "out.jsonl"

    def fault(question: object) -> object:
        return broken(400, "not this one") if "gate 1" in question.text else None  # type: ignore[attr-defined]

    with serving(JudgeEndpoint(lambda question: "False.", fault=fault)) as endpoint:  # type: ignore[arg-type]
        command = [
            "data",
            "perturb",
            str(suite),
            "--with",
            "misinformation",
            "--judge",
            "openai/judge",
            "-o",
            str(output),
        ]
        assert run([*command, "--judge-api-base", endpoint.url]) == 0
    assert [case["case"] for case in read(output) if "~" in case["case"]] == ["c0~misinformation", "c2~misinformation"]
    assert "1 copy was not written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "perturb"],
        ["data", "perturb", "SUITE"],
        ["data", "perturb", "SUITE", "--with", "typo:enormous"],
        ["data", "perturb", "SUITE", "--with", "typo", "-o", "SUITE"],
        ["data", "perturb", "SUITE", "--with", "typo", "--copies", "0"],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(suite: Path, arguments: list[str]) -> None:
    assert run([str(suite) if each == "SUITE" else each for each in arguments]) == 2
