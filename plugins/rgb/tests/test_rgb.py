"""``leadline data rgb`` from RGB's files to the paper's tables, with the real flow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.datasets.rgb_files import PLAIN, write_lines, write_testbeds

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
def environment(api: dict[str, str], tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LEADLINE_"))}
    return kept | api | {"LEADLINE_STORE": str(tmp_path / "store"), "XDG_STATE_HOME": str(tmp_path / "state")}


def leadline(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "leadline.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=110)


def test_from_the_benchmarks_files_to_the_papers_tables(environment: dict[str, str], tmp_path: Path) -> None:
    suite = tmp_path / "suite.jsonl"
    data = str(write_testbeds(tmp_path / "rgb"))
    built = leadline(environment, "data", "rgb", "build", data, "--noise", "0,0.4", "--closed-book", "-o", str(suite))
    assert built.returncode == 0, built.stderr
    cases = [json.loads(line) for line in suite.read_text(encoding="utf-8").splitlines()]
    answered = [case | {"model": "m", "actual_answer": ANSWERS[case["case"]]} for case in cases]
    answers = str(write_lines(tmp_path / "answers.jsonl", answered))

    done = leadline(environment, "data", "rgb", "table", answers, "--scorer", "official", "--json")
    assert done.returncode == 0, done.stderr
    found = {
        column: cell["share"]
        for table in json.loads(done.stdout)["tables"]
        for column, cell in table["models"]["m"].items()
    }
    assert found == {
        "en_refine 0 %": 1.0, "en_refine 40 %": 1.0, "en_refine Rej": 1.0, "zh_int 0 %": 1.0, "zh_int 40 %": 0.0,
        "en_fact Acc": 1.0, "en_fact Acc_doc": 1.0, "en_fact ED": 1.0, "en_fact CR": 1.0,
    }  # fmt: skip

    again = leadline(environment, "data", "rgb", "table", "latest")
    assert "Noise robustness (table 1)" in again.stdout
    assert "100.00 (2.5 to 100.0)" in again.stdout


def test_what_cannot_be_laid_out_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    plain = str(write_lines(tmp_path / "d.jsonl", [{"case": "c", "model": "m", "actual_answer": "a"}]))
    results = str(write_lines(tmp_path / "p.json", [PLAIN | {"ans": "x", "prediction": "y"}]))
    for arguments in ((plain, results), ("nosuch", plain), ("nosuch",), (results,)):
        done = leadline(environment, "data", "rgb", "table", *arguments)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
