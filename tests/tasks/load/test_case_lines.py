"""Finding the lines of rows in a dataset's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.load.source import Sought, find_lines

ROW = Sought("c2", "bot", "How deep is it?")


def lines_in(tmp_path: Path, name: str, text: str, *rows: Sought) -> list[int | None]:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    found = find_lines(file, rows)
    return [found.get(row) for row in rows]


def test_a_row_of_a_table_is_where_its_record_begins(tmp_path: Path) -> None:
    text = 'case,model,question,answer\nc1,bot,"Two\nlines?",x\nc2,bot,How deep is it?,"3\n4"\nc3,bot,Last?,x\n'
    assert lines_in(tmp_path, "d.csv", text, ROW, Sought("c3", "bot", "Last?")) == [4, 6]


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_table_may_have_other_signs_between_cells(tmp_path: Path, sign: str) -> None:
    text = f"case{sign}question\nc1{sign}x\nc2{sign}How deep is it?\n"
    assert lines_in(tmp_path, "d.csv", text, ROW) == [3]


@pytest.mark.parametrize("header", ['"no., as, told";question', "sep=,\ncase;question", '"the\ncase";question'])
def test_a_table_is_split_where_its_reader_splits_it(tmp_path: Path, header: str) -> None:
    text = f"{header}\nc1;x\nc2;How deep is it?\n"
    assert lines_in(tmp_path, "d.csv", text, ROW) == [text.count("\n")]


def test_the_line_with_the_model_comes_before_others_of_the_case(tmp_path: Path) -> None:
    records = [{"case": "c2", "model": model, "question": "How deep is it?"} for model in ("other", "bot")]
    text = "\n".join(json.dumps(record) for record in records)
    assert lines_in(tmp_path, "d.jsonl", text, ROW) == [2]


def test_a_document_has_the_line_of_the_question(tmp_path: Path) -> None:
    text = json.dumps({"models": ["bot"], "cases": [{"key": "c2", "question": "How deep is it?"}]}, indent=1)
    [line] = lines_in(tmp_path, "d.json", text, ROW)
    assert line is not None
    assert "How deep is it?" in text.splitlines()[line - 1]


def test_escaped_texts_are_found(tmp_path: Path) -> None:
    question = 'A "quoted" Straße?\n\\'
    text = f"{{}}\n{json.dumps({'question': question})}\n"
    assert lines_in(tmp_path, "d.jsonl", text, Sought("1", "m", question)) == [2]


@pytest.mark.parametrize("name", ["d.parquet", "d.csv.gz", "missing"])
def test_other_files_have_no_lines(tmp_path: Path, name: str) -> None:
    assert lines_in(tmp_path, name, "c2,bot,How deep is it?", ROW) == [None]
    assert find_lines(tmp_path / "nowhere.csv", [ROW]) == {}


def test_a_row_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert lines_in(tmp_path, "d.csv", "case,model\nc9,bot\n", ROW) == [None]


@given(content=st.binary(max_size=300), name=st.sampled_from(["d.csv", "d.jsonl"]))
def test_no_content_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(content)
    assert all(line >= 1 for line in find_lines(file, [ROW, Sought("", "", "")]).values())
