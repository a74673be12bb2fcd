"""Every CSV file of a run on hostile texts: nothing in it is a formula or acts on a terminal, Parquet is exact."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest

from leadline.cli.main import run

FORMULA, ESCAPE = "=HYPERLINK(A1)", "+cmd \x1b[2J\r"


def dataset(file: Path, answer: str) -> Path:
    rows = [
        {"case": case, "model": model, "question": "-q", "actual_answer": answer, "expected_answer": "=b",
         "category": FORMULA, "condition": "\"=\""}
        for case in (FORMULA, ESCAPE, "-1")
        for model in ("@SUM(A1)", "=cmd()")
    ]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


def bad_cells(file: Path) -> list[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        cells = [cell for line in csv.reader(opened) for cell in line]
    acting = [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r") or {"\x1b", "\r"} & set(cell)]
    return [cell for cell in acting if not is_number(cell)]


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def evaluated(tmp_path: Path, answer: str, name: str) -> Path:
    file = dataset(tmp_path / f"{name}.jsonl", answer)
    output = tmp_path / name
    assert run(["evaluate", str(file), "-e", "bleu,text_matching", "--server", "none", "-o", str(output)]) == 0
    return output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    return tmp_path


@pytest.mark.slow
def test_no_csv_file_of_a_run_holds_a_formula_or_a_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = evaluated(project, "=b \x1b]0;t\x07", "one")
    evaluated(project, "-x", "two")
    assert run(["compare", "latest~1", "latest", "--all-metrics", "-o", str(project / "compared")]) in (0, 1)
    query = ["store", "sql", "SELECT case_key AS \"=x\", question, -1.5 AS n, '-inf'::DOUBLE AS low FROM cases"]
    assert run([*query, "-o", "q.csv"]) == 0
    files = [*results.rglob("*.csv"), *(project / "compared").rglob("*.csv"), project / "q.csv"]
    names = {file.name for file in files}
    assert names >= {"scores.csv", "aggregates.csv", "problems.csv", "slices.csv", "flips.csv", "q.csv"}
    assert {str(file): bad_cells(file) for file in files if bad_cells(file)} == {}
    assert "'=HYPERLINK(A1)" in (results / "scores.csv").read_text(encoding="utf-8")
    assert ",-1.5,-Infinity" in (project / "q.csv").read_text(encoding="utf-8")
    capsys.readouterr()


@pytest.mark.slow
def test_parquet_is_exact_and_csv_is_on_request(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADLINE_CSV", "exact")
    results = evaluated(project, "=b", "one")
    with (results / "scores.csv").open(encoding="utf-8", newline="") as file:
        cases = {line["case"] for line in csv.DictReader(file)}
    stored = (
        duckdb.connect()
        .execute(f"SELECT DISTINCT \"case\" FROM read_parquet('{results / 'scores.parquet'}')")
        .fetchall()
    )
    assert cases == {case for (case,) in stored} == {FORMULA, ESCAPE, "-1"}
    capsys.readouterr()
