"""The reader of large JSON documents agrees with the standard library, wherever its buffer ends."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tasks.load.faults import Faults
from leadline.tasks.load.readers import json_records
from leadline.tasks.load.readers.json_records import read_document
from leadline.tasks.load.source import SourceFile

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('ab"\\{}[],:\n é', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"{', max_size=3), inner, max_size=3),
    max_leaves=8,
)
records = st.dictionaries(st.sampled_from(["key", "a", "b"]), values, min_size=1)


def read(content: str, size: int) -> tuple[list[tuple[str, int, Any]], list[str]]:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(json_records, "_READ", size):
        path = Path(folder) / "d.json"
        path.write_text(content, encoding="utf-8")
        faults = Faults("d.json")
        sections = {"inputs", "models"} if content.startswith("{") else frozenset()
        found = [(item.section, item.row, item.value) for item in read_document(SourceFile.at(path), faults, sections)]
        try:
            faults.refuse()
        except Exception as error:
            return found, str(error).splitlines()[1:]
    return found, []


@settings(max_examples=150, deadline=None)
@given(st.lists(records, max_size=6), st.integers(1, 40), st.sampled_from([None, 0, 2]), st.booleans())
def test_records_are_those_that_the_standard_library_reads(
    made: list[dict[str, Any]], size: int, indent: int | None, alike: bool
) -> None:
    if alike:
        made = [{"key": index} | record for index, record in enumerate(made)]
    found, faults = read(json.dumps(made, indent=indent), size)
    assert [value for _, _, value in found] == made
    assert faults == []
    document = {"name": "x", "skipped": {"deep": made}, "inputs": made, "models": [{"key": "m"}], "n": -1.5e3}
    found, faults = read(json.dumps(document, indent=indent), size)
    assert faults == []
    assert [value for section, _, value in found if section == "inputs"] == made
    assert [value for section, _, value in found if section == "models"] == [{"key": "m"}]


@settings(max_examples=150, deadline=None)
@given(st.lists(records, min_size=1, max_size=4), st.integers(1, 40), st.data())
def test_a_document_that_is_cut_off_is_never_taken_for_a_whole_one(
    made: list[dict[str, Any]], size: int, data: st.DataObject
) -> None:
    content = json.dumps({"inputs": made})
    cut = data.draw(st.integers(len('{"inputs": ['), len(content) - 1))
    found, faults = read(content[:cut], size)
    assert len(faults) == 1
    assert [value for _, _, value in found] == made[: len(found)]


@pytest.mark.parametrize("first", ["key", "other"])
def test_many_records_are_read_whether_or_not_they_look_alike(first: str) -> None:
    made = [{("key" if index % 3 else first): index, "text": '},{"key"' * (index % 5)} for index in range(3000)]
    for indent in (None, 1):
        found, faults = read(json.dumps(made, indent=indent), 1000)
        assert [value for _, _, value in found] == made
        assert faults == []


def test_a_value_longer_than_a_record_may_be_is_refused() -> None:
    with mock.patch.object(json_records, "MAX_RECORD", 1000):
        found, faults = read(json.dumps([{"a": "x"}, {"a": "x" * 2000}, {"a": "y"}]), 64)
    assert len(found) == 1
    assert "row 2: the record at line 1, byte 14 is longer than" in faults[0]
