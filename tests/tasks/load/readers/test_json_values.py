"""A name that a JSON object has twice is a fault, for decoders would drop the first value without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.datasets.loading import as_jsonl, faults, load

GOOD: dict[str, Any] = {"case": "c1", "model": "m", "question": "Q", "actual_answer": "A"}


@pytest.mark.parametrize("blank", ["", " ", "  ", "\n"])
def test_a_name_that_an_object_repeats_is_a_fault(tmp_path: Path, blank: str) -> None:
    first = '{"case": "c1", "question": "Q", "actual_answer": "A"}'
    twice = first.replace("c1", "c2").replace("}", f', "question"{blank}: "R"}}')
    inner = first.replace("c1", "c3").replace("}", ', "metadata": {"a": {"x": 1, "x": "\\":"}}}')
    expected_faults = [
        "row 2, question: the object has this name more than once",
        "row 3, x: the object has this name more than once",
    ]
    assert faults(tmp_path, "d.json", f"[{first}, {twice}, {inner}]") == expected_faults
    if blank != "\n":
        assert faults(tmp_path, "d.jsonl", "\n".join([first, twice, inner])) == expected_faults


def test_names_that_documents_and_cells_repeat_are_faults(tmp_path: Path) -> None:
    case = '{"key": "c1", "question": "Q", "answers": [{"model": "m", "actual_answer": "A", "actual_answer": "B"}]}'
    assert faults(tmp_path, "d.json", f'{{"cases": [{case}], "cases": []}}') == [
        "cases: the object has this name more than once",
        "row 1, cases[].actual_answer: the object has this name more than once",
    ]
    content = 'case,actual_answer,metadata\n1,A,"{""a"": 1, ""a"": 2}"\n'
    assert faults(tmp_path, "d.csv", content) == ["row 1, metadata: an object has the name 'a' more than once"]


def test_texts_that_look_like_repeated_names_are_none(tmp_path: Path) -> None:
    texts = ['"a": "a": ', '{"a": 1, "a": 2}', "\\", '\\": "', '":":":']
    records = [GOOD | {"case": str(i), "actual_answer": text, text: text} for i, text in enumerate(texts)]
    assert load(tmp_path, "d.jsonl", as_jsonl(records)).rows == len(texts)
    assert load(tmp_path, "d.json", records).rows == len(texts)
