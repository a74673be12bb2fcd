"""The checks that strangers run on their evaluators: each fault is found by the check that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.evaluators.core import registry
from leadline.evaluators.core.user_evaluators import load_evaluator_file
from leadline.testing import check_evaluator

SHOUTING = """
import leadline

@leadline.register
class Shouting(leadline.RowEvaluator):
    '''Share of capitals among the letters of the answer.'''

    spec = leadline.Spec.simple("shouting", inputs=["actual_answer"], higher_is_better=False)

    def score_row(self, row, ctx):
        letters = [c for c in row.actual_answer if c.isalpha()]
        return leadline.RowScore({"shouting": sum(map(str.isupper, letters)) / max(1, len(letters))})
"""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry.all_evaluators()))


def problems(folder: Path, *changes: tuple[str, str]) -> dict[str, str]:
    text = SHOUTING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "own.py").write_text(text, encoding="utf-8")
    (kind,) = load_evaluator_file(folder / "own.py")
    return {check.name: check.problem for check in check_evaluator(kind) if check.problem}


def test_an_evaluator_that_keeps_the_contract_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path) == {}


@pytest.mark.parametrize(
    ("old", "new", "check", "problem"),
    [
        ('simple("sh', 'simple("Sh', "its metadata is complete", "not in small letters"),
        ('["actual_answer"]', "[]", "its metadata is complete", "no inputs"),
        (
            "    '''Share of capitals among the letters of the answer.'''\n",
            "",
            "its metrics are well defined",
            "docstring",
        ),
        ("=False)", "=False, low=1)", "its metrics are well defined", "range of shouting is empty"),
        ("max(1, len(letters))", "len(letters)", "absurd texts are survived", "ZeroDivisionError"),
        ("/ max(1, len(letters))", "", "a plain row is scored", "outside of 0.0 to 1.0"),
        ('Score({"sh', 'Score({"m', "a plain row is scored", "not ['shouting']"),
        ("row.actual_answer if", "row.question if", "inputs that it does not declare change nothing", "also_reads"),
        ("row.actual_answer if", "row.question if", "a row of nothing but its required inputs is scored", "unscored"),
        (
            "sum(map(str.isupper, letters))",
            "__import__('random').random()",
            "scores depend on the row alone",
            "otherwise",
        ),
    ],
)
def test_a_fault_is_found(tmp_path: Path, old: str, new: str, check: str, problem: str) -> None:
    assert problem in problems(tmp_path, (old, new)).get(check, "")


def test_the_command_prints_a_line_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(SHOUTING, encoding="utf-8")
    assert run(["evaluators", "check", str(tmp_path / "own.py")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok    shouting: its metadata is complete"
    assert all(line.startswith("ok    shouting: ") for line in lines)
    (tmp_path / "own.py").write_text(SHOUTING.replace("max(1, len(letters))", "len(letters)"), encoding="utf-8")
    assert run(["evaluators", "check", str(tmp_path / "own.py")]) == 1
    printed = capsys.readouterr().out
    assert "FAIL  shouting: absurd texts are survived (nothing as actual_answer: ZeroDivisionError" in printed


def test_the_command_takes_ids_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "check", "contains"]) == 0
    assert all(line.startswith("ok    contains: ") for line in capsys.readouterr().out.splitlines())
    assert run(["evaluators", "check", "contain"]) == 2
    assert "Did you mean contains" in capsys.readouterr().err
    assert run(["evaluators", "check", "gone.py"]) == 2
    assert "gone.py cannot be read" in capsys.readouterr().err


def test_what_asks_a_judge_is_checked_as_far_as_it_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(
        """
import leadline

@leadline.register
class Politeness(leadline.JudgeEvaluator):
    '''Share of polite answers.'''

    spec = leadline.Spec.simple("politeness", inputs=["actual_answer"], higher_is_better=True, judge="llm")
    prompts = {"verdict": "Is this polite? Say yes or no. {{ answer | data }}"}

    async def judge_row(self, row, judge, ctx):
        word = await judge.choose("verdict", ("yes", "no"), answer=row.actual_answer)
        return leadline.RowScore({"politeness": float(word == "yes")})
"""
    )
    assert run(["evaluators", "check", str(tmp_path / "own.py")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4].strip() for line in lines] == ["ok"] * 3 + ["skip"] * 7
    assert lines[-1].endswith("(it asks a judge)")
