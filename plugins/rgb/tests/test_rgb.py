"""``leadline data rgb`` from RGB's files to the paper's tables, with the real flow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.datasets.rgb_files import PLAIN, write_lines, write_testbeds
from tests.support.processes.terminal import Terminal

pytestmark = pytest.mark.e2e

ANSWERS = {
    "en_refine-0-noise0": "Ada Lund",
    "en_refine-0-noise0.4": "a. lund, they say",
    "en_refine-0-noise1": "I can not answer the question because of the insufficient information in documents.",
    "en_fact-0-noise0": "There are factual errors in the provided documents. It is Skagen.",
    "en_fact-0-closed-book": "Skagen",
    "zh_int-0-noise0": "1月 3日 和 一月十二日",
    "zh_int-0-noise0.4": "1月3日",
}


@pytest.fixture
def terminal(api: dict[str, str], tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, api, LEADLINE_STORE=str(tmp_path / "store"))


def test_from_the_benchmarks_files_to_the_papers_tables(terminal: Terminal, tmp_path: Path) -> None:
    suite = tmp_path / "suite.jsonl"
    data = str(write_testbeds(tmp_path / "rgb"))
    terminal.run("data", "rgb", "build", data, "--noise", "0,0.4", "--closed-book", "-o", str(suite))
    cases = [json.loads(line) for line in suite.read_text(encoding="utf-8").splitlines()]
    answered = [case | {"model": "m", "actual_answer": ANSWERS[case["case"]]} for case in cases]
    answers = str(write_lines(tmp_path / "answers.jsonl", answered))

    shown = terminal.json("data", "rgb", "table", answers, "--scorer", "official")
    found = {column: cell["share"] for table in shown["tables"] for column, cell in table["models"]["m"].items()}
    assert found == {
        "en_refine 0 %": 1.0, "en_refine 40 %": 1.0, "en_refine Rej": 1.0, "zh_int 0 %": 1.0, "zh_int 40 %": 0.0,
        "en_fact Acc": 1.0, "en_fact Acc_doc": 1.0, "en_fact ED": 1.0, "en_fact CR": 1.0,
    }  # fmt: skip

    again = terminal.run("data", "rgb", "table", "latest")
    assert "Noise robustness (table 1)" in again.stdout
    assert "100.00 (2.5 to 100.0)" in again.stdout


def test_what_cannot_be_laid_out_is_one_line(terminal: Terminal, tmp_path: Path) -> None:
    plain = str(write_lines(tmp_path / "d.jsonl", [{"case": "c", "model": "m", "actual_answer": "a"}]))
    results = str(write_lines(tmp_path / "p.json", [PLAIN | {"ans": "x", "prediction": "y"}]))
    for arguments in ((plain, results), ("nosuch", plain), ("nosuch",), (results,)):
        done = terminal.run("data", "rgb", "table", *arguments, code=2)
        assert len(done.stderr.strip().splitlines()) == 1
