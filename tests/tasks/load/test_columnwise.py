"""Records that are read column by column become what they become one at a time, and have the same faults."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.columnwise import stage_records
from leadline.tasks.load.readers.tables import rows_of_lines
from tests.support.datasets.loading import as_jsonl, load, rows, tables

TEXTS = st.sampled_from(
    ["", " ", "\u2003", "a", "Ünï\u0301", "😀", '"q": "x"', "} {", "two\nlines", "tab\t\r\n", "\x00nul", "\x1c", "[1]",
     "{x", '["a", "b"]', '[{"content": "c", "doc_uri": "d"}]', "NaN", "1", "x" * 1001]
)  # fmt: skip
NUMBERS = st.sampled_from(
    [0, 1, -0.0, 2.5, -1, 12.0, 2**53 + 1, 2**63, 2**64, 10**30, 1e300, float("nan"), float("inf")]
)
ODD = st.one_of(st.none(), TEXTS, NUMBERS, st.booleans(), st.sampled_from([[], {}, [None], [[1]], {"a": {"b": None}}]))
KEYS = st.sampled_from(["c1", "c2", "c3", " ", "", 7, 7.0, "7"])
CHUNKS = st.lists(
    st.one_of(
        TEXTS,
        st.fixed_dictionaries(
            {"content": TEXTS}, optional={"doc_uri": TEXTS, "page_content": TEXTS, "score": NUMBERS, "x": st.just({})}
        ),
        st.none(),
    ),
    max_size=3,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "case": KEYS,
    "model": st.sampled_from(["m1", "m2", "m2", None, " "]),
    "model_name": st.sampled_from(["One", "One", None, "Two"]),
    "model_version": st.sampled_from(["1", None]),
    "question": TEXTS,
    "prompt": TEXTS,
    "expected_answer": st.one_of(TEXTS, st.lists(TEXTS, max_size=2)),
    "expected_documents": st.one_of(TEXTS, st.lists(KEYS, max_size=2)),
    "condition": st.sampled_from(['"a"', "broken (", None]),
    "categories": st.one_of(TEXTS, st.lists(TEXTS, max_size=2)),
    "actual_answer": TEXTS,
    "retrieved_context": st.one_of(TEXTS, CHUNKS),
    "error": st.one_of(st.none(), TEXTS, st.just({"code": 500})),
    "duration_s": NUMBERS,
    "duration_ms": NUMBERS,
    "cost_usd": NUMBERS,
    "input_tokens": NUMBERS,
    "metadata": st.sampled_from([{}, {"z": 1, "a": None}, {"own": 1.0}, "x"]),
    "answers": st.sampled_from([[], "x", [{"actual_answer": "A"}]]),
    "relationships": st.just([{"type": "perturbation_source", "target": "c1"}]),
    "own": ODD,
    "inputs": st.sampled_from([{"question": "Q"}, '{"question": "Q"}', "plain"]),
    "response": TEXTS,
    "user_input": TEXTS,
    "retrieved_context_ids": st.lists(TEXTS, max_size=2),
}
FEW = settings(max_examples=settings.default.max_examples // 5)
"""Each example is loaded twice."""


@st.composite
def record_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return records that are mostly alike, so that some can be read column by column."""
    layout = draw(st.sampled_from([("question", "actual_answer"), ("prompt", "response"), ("user_input", "response")]))
    names = [*layout, *draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=5, unique=True))]
    records = []
    for number in range(draw(st.integers(1, 8))):
        record: dict[str, Any] = {name: f"{name} {number}" for name in layout}
        if draw(st.booleans()):
            record["case"] = f"c{number}"
        if draw(st.integers(0, 2)):
            record |= {name: draw(FIELDS[name]) for name in names if draw(st.integers(0, 3))}
        if not draw(st.integers(0, 15)):
            record[draw(st.sampled_from([*sorted(FIELDS), "new"]))] = draw(ODD)
        records.append(record)
    return records


LINES = st.sampled_from(
    ["", " ", "\x0b", "null", "3", '"x"', "[1]", "{}", "{", '{"a": 1} {"a": 2}', '{"question": "Q", "question": "R"}',
     '{"question": "Q", "own": {"a": 1, "a": 2}}', '{"question" : "Q"}', '{"question": "\\ud83d"}',
     '{"duration_s": NaN}', '{"question": "Q", "actual_answer": "A", "duration_s": 1e999}',
     '{"question": "a\tb"}', "{'a': 1}", '{"a": 1},']
)  # fmt: skip


def outcome(folder: Path, name: str, content: bytes, *, by_columns: bool) -> object:
    """Return all that a load makes of a file: its tables and what it says, or its faults."""
    with (
        mock.patch("leadline.tasks.load.importing.COLUMNS_FROM", 0 if by_columns else 2**62),
        mock.patch("leadline.tasks.load.readers.json_records.BLOCK_BYTES", 300),
        mock.patch("leadline.tasks.load.readers.csv_table.BLOCK_BYTES", 700),
        mock.patch("leadline.tasks.load.readers.csv_table.PARSED_BYTES", 2000),
    ):
        try:
            loaded = load(folder / str(by_columns), name, content)
        except DatasetError as error:
            return [(fault.row, fault.column, fault.message) for fault in error.faults], error.more
    said = (loaded.digest, loaded.format, loaded.models, loaded.warnings, dict(loaded.columns), loaded.metadata_columns)
    return said, repr(tables(loaded))


def assert_same(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for way in ("True", "False"):
            (Path(folder) / way).mkdir()
        slow, fast = (outcome(Path(folder), name, content, by_columns=each) for each in (False, True))
    assert fast == slow


@FEW
@given(record_lists(), st.lists(st.tuples(st.integers(0, 8), LINES), max_size=1), st.booleans(), st.booleans())
def test_lines(records: list[dict[str, Any]], odd: list[tuple[int, str]], windows: bool, escaped: bool) -> None:
    lines = [json.dumps(record, ensure_ascii=escaped) for record in records]
    for at, line in odd:
        lines.insert(min(at, len(lines)), line)
    content = ("\r\n" if windows else "\n").join(lines).encode()
    assert_same("d.jsonl", (b"\xef\xbb\xbf" if windows else b"") + content + b"\n" * escaped)


ALIKE = '{"question": "Q1", "actual_answer": "A", "own": "x", "duration_s": 1.5}\n'


@pytest.mark.parametrize(
    ("other", "is_table"),
    [
        ('{"own": "1", "duration_s": 2}', True),
        ('{"question": null, "own": "\\ud83d\\ude00"}', True),
        ("{}", True),
        ('{"question": "Q2", "more": "x"}', False),
        ('{"question": "Q2", "own": 1}', False),
        ('{"question": "Q2", "question": "Q3"}', False),
        ('{"question": "Q2", "own": "\\ud83d"}', False),
        ('{"question": "Q2", "own": "a\tb"}', False),
        ('{"question": "Q2"} {"question": "Q3"}\n{"question":\n"Q4"}', False),
        ("", False),
        ("null", False),
    ],
)
def test_lines_that_are_all_alike_are_parsed_into_a_table(other: str, is_table: bool) -> None:
    table = rows_of_lines(f"{ALIKE * 9}{other}\n{ALIKE}".encode(), 4)
    assert (table is not None) == is_table
    if table is not None:
        values = [json.loads(line) for line in (*[ALIKE] * 9, other, ALIKE)]
        given = [{name: value for name, value in line.items() if value is not None} for line in values]
        assert (list(table.others(())), list(table.rows)) == (given, list(range(5, 16)))


def test_a_number_that_is_no_fields_stays_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.COLUMNS_FROM", 0)
    records = [{"question": f"Q{number}", "actual_answer": "A", "own": number / 2} for number in (1, 2, 3)]
    records[1]["own"] = 1
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    assert [row["metadata"] for row in tables(loaded)["rows"]] == ['{"own":0.5}', '{"own":1}', '{"own":1.5}']


@FEW
@given(record_lists(), st.lists(st.tuples(st.integers(1, 8), st.sampled_from([",", "a", '"', '"",""'])), max_size=1))
def test_tables_of_texts(records: list[dict[str, Any]], odd: list[tuple[int, str]]) -> None:
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_MINIMAL)
    writer.writerow(names)
    for record in records:
        writer.writerow([_cell(record.get(name)) for name in names])
    lines = out.getvalue().split("\r\n")
    for at, line in odd:
        lines.insert(min(at, len(lines)), line)
    assert_same("d.csv", "\r\n".join(lines).encode())


@pytest.mark.parametrize(
    "odd", ['["a"], "cell": ["b"]', '["a"]}\n{"cell":["b"]', '["a"]} {"cell":["b"]', "null", "3", ""]
)
def test_a_cell_that_ends_its_list_early_is_what_it_is_alone(odd: str) -> None:
    out = io.StringIO(newline="")
    cells = ['["a", "b"]', odd, '["c"]']
    writer = csv.writer(out)
    writer.writerow(["question", "actual_answer", "retrieved_context"])
    writer.writerows([f"Q{number}", "A", cell] for number, cell in enumerate(cells))
    assert_same("d.csv", out.getvalue().encode())


def _cell(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


@settings(max_examples=settings.default.max_examples // 10)  # each starts two processes, which read Parquet
@given(record_lists(), st.booleans())
def test_typed_tables(records: list[dict[str, Any]], shared: bool) -> None:
    names = list(dict.fromkeys(name for record in records for name in record))
    columns: dict[str, pa.Array] = {}
    for name in names:
        try:
            array = pa.array([record.get(name) for record in records])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            array = pa.array([_cell(record.get(name)) for record in records])
        columns[name] = array.dictionary_encode() if shared and pa.types.is_string(array.type) else array
    out = io.BytesIO()
    try:
        parquet.write_table(pa.table(columns), out, row_group_size=3)
    except pa.ArrowNotImplementedError:  # a struct without members
        return
    assert_same("d.parquet", out.getvalue())


RECORD: dict[str, Any] = {
    "case": "c", "model": "m", "question": "Q?", "expected_answer": ["A", "B"], "actual_answer": "A",
    "retrieved_context": [{"content": "x", "doc_uri": "d"}], "duration_s": 1, "input_tokens": 5,
    "own": {"b": [1, None]},
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_clean_records_are_read_column_by_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.COLUMNS_FROM", 0)
    done: list[bool] = []
    monkeypatch.setattr(
        "leadline.tasks.load.columnwise.stage_records", lambda *args: done.append(stage_records(*args)) or done[-1]
    )
    records = [RECORD | {"case": f"c{number}"} for number in range(50)]
    assert load(tmp_path, f"d.{suffix}", _as(suffix, records)).rows == 50
    assert done == [True]


def _as(suffix: str, records: Sequence[dict[str, Any]]) -> bytes:
    if suffix == "jsonl":
        return as_jsonl(records)
    if suffix == "parquet":
        out = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist(list(records)), out)
        return out.getvalue()
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in record.items()} for record in records)
    return text.getvalue().encode()


def test_a_fault_among_many_clean_records_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.COLUMNS_FROM", 0)
    monkeypatch.setattr("leadline.tasks.load.readers.json_records.BLOCK_BYTES", 4096)
    records = [RECORD | {"case": f"c{number}"} for number in range(500)]
    records[321] |= {"duration_s": -1}
    with pytest.raises(DatasetError) as refused:
        load(tmp_path, "d.jsonl", as_jsonl(records))
    assert [str(fault).partition(", ")[2] for fault in refused.value.faults] == ["row 322, duration_s: -1 is negative"]


def test_a_fault_in_a_later_batch_of_a_table_has_its_row_too(tmp_path: Path) -> None:
    records = [RECORD | {"case": f"c{number}", "duration_s": 1.0} for number in range(10_000)]
    records[9_000]["duration_s"] = -1.0
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(records), out, row_group_size=6_000)
    with pytest.raises(DatasetError) as refused:
        load(tmp_path, "d.parquet", out.getvalue())
    assert [str(fault).partition(", ")[2] for fault in refused.value.faults] == [
        "row 9001, duration_s: -1.0 is negative"
    ]


@pytest.mark.parametrize(
    ("name", "field", "value"), [("actual_answer", "actual_answer", "C"), ("own", "metadata", {"own": "C"})]
)
def test_of_two_columns_with_one_name_the_last_counts(tmp_path: Path, name: str, field: str, value: object) -> None:
    columns = {"case": ["a", "b"], "question": ["Q", "R"], "actual_answer": ["A", "B"], "own": ["x", "y"]}
    out = io.BytesIO()
    table = pa.table([*map(pa.array, columns.values()), pa.array(["C", None])], [*columns, name])
    parquet.write_table(table, out)
    assert_same("d.parquet", out.getvalue())
    assert rows(load(tmp_path, "d.parquet", out.getvalue()))["a", "d"][field] == value


@pytest.mark.parametrize("odd", [0, 3000])
def test_a_block_of_ragged_rows_has_its_faults(odd: int) -> None:
    """The block has no row that could be read, at the beginning of the file or at its end."""
    lines = ["question,actual_answer", *["Q,A"] * 1000]
    lines[1 + odd : 1 + odd] = ["Q,A,more"] * 1000
    assert_same("d.csv", "\n".join(lines).encode())


@pytest.mark.parametrize(
    "own",
    [
        pa.Array.from_buffers(pa.string(), 2, pa.array([b"a\xff", b"b"], pa.binary()).buffers()),
        pa.array([2**62, 0], pa.timestamp("us")),
        pa.array([0, 1], pa.timestamp("us", "No/Where")),
    ],
    ids=["bytes that are no text", "a date out of range", "an unknown time zone"],
)
@pytest.mark.parametrize("by_columns", [True, False])
def test_a_column_that_cannot_be_read_is_a_fault_with_its_name(tmp_path: Path, own: pa.Array, by_columns: bool) -> None:
    (tmp_path / str(by_columns)).mkdir()
    out = io.BytesIO()
    parquet.write_table(pa.table({"question": ["Q", "R"], "actual_answer": ["A", "B"], "own": own}), out)
    found: Any = outcome(tmp_path, "d.parquet", out.getvalue(), by_columns=by_columns)
    ((_, column, message),), _ = found
    assert column == "own"
    assert message.startswith("rows 1 to 2 cannot be read, the Parquet file is damaged: ")


def test_repeated_cases_keep_the_order_of_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.COLUMNS_FROM", 0)
    monkeypatch.setattr("leadline.tasks.load.staging.BATCH_BYTES", 64 * 1024)
    count = 10_000
    records = [{"question": f"Q{number % 1000}", "actual_answer": str(number)} for number in range(count)]
    found = tables(load(tmp_path, "d.jsonl", as_jsonl(records)))
    assert [row["actual_answer"] for row in found["rows"]] == [str(number) for number in range(count)]
    assert [row["row_id"] for row in found["digests"]] == list(range(count))
