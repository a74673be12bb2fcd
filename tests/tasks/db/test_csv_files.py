"""CSV files: no text in them is a formula or acts on a terminal, and numbers stay numbers."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.ground import UsageError
from leadline.tasks.db.csv_files import guarded_cell, is_guarded, write_csv

HOSTILE = (
    "=HYPERLINK(A1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "  =1+1", "\t=1", "\r=1", "\n=1", "＝1", "'=1",
)  # fmt: skip
TERMINAL = ("\x1b[2J", "a\x07", "\x9b31m", "a\rb", "\u202egnp", "\x7f", "\u2028")
AS_THEY_ARE = ("-1", "+49", "-1.5e3", "", "a=b", "line\nline", "a\tb", "ä €", "[1, 2]")


def written(tmp_path: Path, query: str, texts: tuple[str, ...] = ()) -> list[list[str]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE given (place INTEGER, text VARCHAR)")
    connection.executemany("INSERT INTO given VALUES (?, ?)", list(enumerate(texts)) or [(0, "")])
    write_csv(connection, query, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def harmless(cell: str) -> bool:
    """Return whether neither a spreadsheet nor a terminal does anything with a cell but show it."""
    acts = any(ord(character) < 32 and character not in "\t\n" for character in cell)
    if acts or any(character in cell for character in "\x7f\x9b\u202e\u2028"):
        return False
    try:
        return not math.isnan(float(cell))
    except ValueError:
        return not cell.lstrip(" ").startswith(tuple("=+-@＝＋－＠")) and not cell.startswith(tuple("\t\r\n"))


@pytest.mark.parametrize("text", [*HOSTILE, *TERMINAL])
def test_hostile_texts_are_shown_and_not_obeyed(text: str, tmp_path: Path) -> None:
    [[cell]] = written(tmp_path, "SELECT text FROM given", (text,))
    assert harmless(cell), cell
    assert cell.strip("'")


def test_plain_texts_and_numbers_are_as_they_were(tmp_path: Path) -> None:
    rows = written(tmp_path, "SELECT text, -1.5::DOUBLE, -2, true FROM given ORDER BY place", AS_THEY_ARE)
    assert [row[0] for row in rows] == list(AS_THEY_ARE)
    assert {tuple(row[1:]) for row in rows} == {("-1.5", "-2", "true")}


def test_texts_within_lists_and_names_of_columns_are_guarded(tmp_path: Path) -> None:
    [[found]] = written(tmp_path, "SELECT ['\x1b[2J'] AS \"=1+1\" FROM given")
    assert harmless(found)
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").startswith("'=1+1")


def test_lines_keep_their_order_and_their_null(tmp_path: Path) -> None:
    texts = tuple(f"case {number}" for number in range(3_000))
    rows = written(tmp_path, "SELECT text, NULL::VARCHAR FROM given ORDER BY place DESC", texts)
    assert rows == [[text, ""] for text in reversed(texts)]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12))
def test_python_and_sql_write_the_same_cells(text: str) -> None:
    from leadline.tasks.db.csv_files import _make_guard

    connection = duckdb.connect()
    _make_guard(connection)
    [(cell,)] = connection.execute("SELECT guarded_text(?)", [text]).fetchall()
    assert cell == guarded_cell(text)
    assert harmless(cell)


def test_exact_texts_are_one_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("leadline.toml").write_text('[csv]\ntext = "exact"\n', encoding="utf-8")
    assert written(tmp_path, "SELECT text FROM given ORDER BY place", HOSTILE) == [[text] for text in HOSTILE]
    monkeypatch.setenv("LEADLINE_CSV", "guarded")
    assert is_guarded()
    monkeypatch.setenv("LEADLINE_CSV", "excat")
    with pytest.raises(UsageError, match=r"LEADLINE_CSV: 'excat' is none of guarded, exact"):
        is_guarded()


@pytest.mark.parametrize(("table", "said"), [("csv = 1", "csv is a table"), ("[csv]\ntexts = 1", r"\[csv\] texts: ")])
def test_a_broken_setting_is_said(table: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("leadline.toml").write_text(table, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        is_guarded()
