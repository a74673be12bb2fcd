"""Files that are too long, too large or too clever cost bounded memory."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError, StoreError
from leadline.tasks.load import limits
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.load.readers import _parquet_process, json_values
from leadline.tasks.load.staging import write_searched
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_jsonl, faults, load, rows

GIB = 1024**3
PROGRAM = """
import json, re, sys
from leadline.evaluators.ground.errors import DatasetError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
try:
    said = load_dataset(Store.open(sys.argv[1]), sys.argv[2]).rows
except DatasetError as error:
    said = [str(fault) for fault in error.faults]
# Not ru_maxrss, which a process inherits from the one that started it.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(json.dumps([said, int(peak[1]) * 1024]))
"""


def load_apart(folder: Path, path: Path) -> tuple[Any, int]:
    """Load in a process of its own; return the rows or faults, and the peak of its memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "store"), str(path)], capture_output=True, text=True, check=True
    )
    said, peak = json.loads(done.stdout)
    return said, peak


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("head", "limit"),
    [
        (b'{"question": "', 64),
        (b'[{"question": "', 64),
        (b'{"inputs": [{"input": "', 64),
        (b'question,actual_answer\n"a","', 16),
    ],
    ids=["jsonl", "json", "document", "csv"],
)
def test_a_line_of_a_gibibyte_is_refused_in_bounded_memory(tmp_path: Path, head: bytes, limit: int) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        # The first mebibyte is text, so that the file is not taken for binary data; the rest is a hole.
        file.write(head + b"x" * limits.MIB)
        file.truncate(GIB)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said, peak = load_apart(tmp_path, path)
    assert len(said) == 1
    assert f"longer than {limit} MiB" in said[0]
    assert peak < GIB
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime < 30


@pytest.mark.e2e
def test_sixty_thousand_rows_load_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    words = "the quick brown fox jumps over the lazy dog " * 40
    with path.open("wb") as file:
        for index in range(60_000):
            record = {
                "case": f"c{index // 3}", "model": f"m{index % 3}", "question": f"{index // 3}? {words[:400]}",
                "actual_answer": f"{index} {words}", "retrieved_context": [words, f"{index}"],
            }  # fmt: skip
            file.write(orjson.dumps(record) + b"\n")
    assert path.stat().st_size > 200 * limits.MIB
    said, peak = load_apart(tmp_path, path)
    assert said == 60_000
    assert peak < 1.5 * GIB
    (manifest,) = (tmp_path / "store").glob("datasets/*/manifest.json")
    with duckdb.connect() as connection:
        groups = connection.execute(
            "SELECT count(DISTINCT row_group_id) FROM parquet_metadata(?)", [str(manifest.parent / "rows.parquet")]
        ).fetchall()
    assert 3 <= groups[0][0] <= 40  # of 20,480 rows or 16 MiB


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    long = "x" * (limits.MAX_TEXT + 1)
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl([{"question": "Q", "actual_answer": long}]))
    assert fault == "row 1, actual_answer: the text has 16,777,217 characters; at most 16 Mi are read"


def test_a_list_that_is_too_long_is_refused(tmp_path: Path) -> None:
    record = {"question": "Q", "actual_answer": "A", "retrieved_context": ["x"] * (limits.MAX_ITEMS + 1)}
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl([record]))
    assert fault.startswith("row 1, retrieved_context: the list has 100,001 elements")


@pytest.mark.parametrize("name", ["d.jsonl", "d.json"])
@pytest.mark.parametrize("value", [b"[]", b"{}", b"0", b'"a"'])
def test_a_record_of_too_many_values_is_refused_before_it_is_decoded(
    tmp_path: Path, name: str, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_values, "MAX_VALUES", 1_000)
    record = b'{"question": "q", "actual_answer": "%s", "own": [%s]}'
    many = record % (b"a", b",".join([value] * 1_100))
    texts = record % (b'[{,\\"' * 2_000, b"")
    (tmp_path / name).write_bytes(b"[" + many + b"]" if name == "d.json" else many)
    with pytest.raises(DatasetError, match="the record has more than 1,000 values"):
        load_dataset(Store.open(tmp_path / "store"), tmp_path / name)
    (tmp_path / name).write_bytes(b"[" + texts + b"]" if name == "d.json" else texts)
    assert load_dataset(Store.open(tmp_path / "store"), tmp_path / name).rows == 1


def test_too_many_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.dataset_models.MAX_MODELS", 3)
    records = [{"case": "c", "model": str(index), "actual_answer": "A"} for index in range(4)]
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl(records))
    assert "more than 3 models" in fault


def test_a_table_that_declares_more_than_its_file_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.tasks.load.readers.parquet.FREE_EXPANSION", 10 * limits.MIB)
    path = tmp_path / "made.parquet"
    answers = pa.array(["x" * limits.MIB] * 100)
    parquet.write_table(pa.table({"actual_answer": answers}), path, compression="zstd", use_dictionary=False)
    (fault,) = faults(tmp_path, "d.parquet", path.read_bytes())
    assert "bytes of content: a decompression bomb" in fault


def test_equal_texts_of_a_table_do_not_explode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.staging.FREE_EXPANSION", 50 * limits.MIB)
    path = tmp_path / "made.parquet"
    answers = pa.DictionaryArray.from_arrays(pa.array([0] * 300, type=pa.int32()), pa.array(["x" * limits.MIB]))
    keys = pa.array([str(index) for index in range(300)])
    parquet.write_table(pa.table({"case": keys, "actual_answer": answers}), path, compression="zstd")
    assert path.stat().st_size < limits.MIB // 4
    (fault,) = faults(tmp_path, "d.parquet", path.read_bytes())
    assert "decompression bomb" in fault


@pytest.mark.parametrize(
    "nested",
    [
        lambda text: pa.array([[text]] * 100),
        lambda text: pa.array([{"content": text, "more": [text]}] * 100),
        lambda text: pa.array([[("k", text)]] * 100, pa.map_(pa.string(), pa.string())),
        lambda text: pa.array([[{"content": text}]] * 100),
        lambda text: pa.array([[text.encode()]] * 100),
    ],
    ids=["lists", "structs", "maps", "structs in lists", "bytes"],
)
def test_equal_texts_within_lists_and_structs_do_not_explode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: Any
) -> None:
    monkeypatch.setattr("leadline.tasks.load.readers.parquet.FREE_EXPANSION", 20 * limits.MIB)
    path = tmp_path / "made.parquet"
    keys = [str(index) for index in range(100)]
    columns = {"case": keys, "actual_answer": keys, "retrieved_context": nested("x" * 300_000)}
    parquet.write_table(pa.table(columns), path, compression="zstd")
    assert path.stat().st_size < limits.MIB // 50
    (fault,) = faults(tmp_path, "d.parquet", path.read_bytes())
    assert "decompression bomb" in fault


def test_records_around_the_size_of_a_batch_are_all_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.staging._ENOUGH", 45)
    records = [{"case": str(index), "actual_answer": str(index)} for index in range(100)]
    assert [row["actual_answer"] for row in rows(load(tmp_path, "d.jsonl", as_jsonl(records))).values()] == [
        str(index) for index in range(100)
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("field", ["actual_answer", "question"])
def test_records_of_a_megabyte_take_no_memory_of_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.setattr("leadline.tasks.load.staging.MEMORY", "120MB")
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        for index in range(200):
            record = {"case": f"c{index // 2}", "model": f"m{index % 2}", "question": "Q", "actual_answer": "A"}
            file.write(orjson.dumps(record | {field: f"{index // 2} " + "word " * 200_000}) + b"\n")
    loaded = load_dataset(Store.open(tmp_path / "store"), path)
    assert (loaded.rows, loaded.cases) == (200, 100)
    files = {name: loaded.path / f"{name}.parquet" for name in ("cases", "rows")}
    sizes = [
        metadata.row_group(group).total_byte_size
        for metadata in map(parquet.read_metadata, files.values())
        for group in range(metadata.num_row_groups)
    ]
    assert max(sizes) < 40 * limits.MIB


@pytest.mark.parametrize(("least", "most", "kept"), [(4, 1024, True), (5, 1024, False), (4, 16, False)])
def test_a_large_dataset_keeps_its_texts_in_small_letters_unless_they_are_huge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, most: int, kept: bool
) -> None:
    monkeypatch.setattr("leadline.tasks.load.staging.SEARCHED_FROM", least)
    monkeypatch.setattr("leadline.tasks.load.staging.SEARCHED_BYTES", most)
    records = [
        {"case": f"C{n // 2}", "model": f"m{n % 2}", "question": "ÉTÉ?", "actual_answer": [f"A{n}", None][n // 3]}
        for n in range(4)
    ]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    file = loaded.path / "searched.parquet"
    assert (file.exists(), file.name in json.loads((loaded.path / "manifest.json").read_text())["sha256"]) == (
        kept,
        kept,
    )
    if kept:
        lines = sorted(parquet.read_table(file).to_pylist(), key=lambda line: line["row_id"])
        texts = ["été?\nc0\na0", "été?\nc0\na1", "été?\nc1\na2", "été?\nc1"]
        assert lines == [{"case_id": n // 2, "row_id": n, "text": text} for n, text in enumerate(texts)]


def test_a_dataset_whose_texts_find_no_memory_is_left_without_those_in_small_letters(tmp_path: Path) -> None:
    records = [{"case": str(n), "question": f"{n} " + "word " * 100_000, "actual_answer": "A"} for n in range(40)]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    for memory, left in (("4MB", []), ("400MB", ["searched.parquet"])):
        with duckdb.connect(config={"memory_limit": memory, "temp_directory": "", "threads": 1}) as connection:
            write_searched(connection, loaded.path)
        assert [path.name for path in loaded.path.glob("*searched*")] == left


def test_a_store_without_room_is_said_to_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leadline.tasks.load.importing.write_tables", full)
    with pytest.raises(StoreError, match="No space left on device"):
        load(tmp_path, "d.jsonl", as_jsonl([{"question": "Q", "actual_answer": "A"}]))
    assert not list(tmp_path.glob("store/datasets/*"))
    assert not list(tmp_path.glob("store/staging/*"))


def test_many_row_groups_are_not_added_up_for_each_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added_up = []
    add_up = _parquet_process._unpacked

    def counted(metadata: Any) -> int:
        added_up.append(metadata)
        return add_up(metadata)

    monkeypatch.setattr(_parquet_process, "_unpacked", counted)
    path = tmp_path / "made.parquet"
    table = pa.table({"question": [f"q{n}" for n in range(40)], "actual_answer": ["a"] * 40})
    parquet.write_table(table, path, row_group_size=1)
    bounds = _parquet_process.ReadingLimits(1_000, limits.MIB, limits.MIB, limits.MIB)
    out = io.BytesIO()
    _parquet_process.send(str(path), path.stat().st_size, bounds, out)
    out.seek(0)
    assert pa.ipc.open_stream(out).read_all().num_rows == 0
    assert [pa.ipc.open_stream(out).read_all().num_rows for _ in range(40)] == [1] * 40
    assert len(added_up) == 1


def test_a_batch_has_no_more_of_a_columns_texts_than_it_refers_to(tmp_path: Path) -> None:
    texts = [f"{n:06d}" + "x" * 900 for n in range(10_000)]
    path = tmp_path / "made.parquet"
    parquet.write_table(pa.table({"case": texts, "actual_answer": [None, "", *texts[:-2]]}), path, compression="zstd")
    out = io.BytesIO()
    _parquet_process.send(str(path), 1, _parquet_process.ReadingLimits(10_000, 2**30, limits.MIB, limits.MIB), out)
    assert out.tell() < 1.2 * 2 * sum(map(len, texts))
    assert load(tmp_path, "d.parquet", path.read_bytes()).rows == 10_000


def test_only_texts_that_stay_small_whatever_they_refer_to_are_read_as_they_are(tmp_path: Path) -> None:
    unlike = [f"{n:06d}" + "x" * 400 for n in range(4_000)]
    one_long = ["y" * 900_000, *unlike[1:]]
    path = tmp_path / "made.parquet"
    parquet.write_table(pa.table({"question": unlike, "model": ["m"] * 4_000}), path)
    assert sent_types(path) == {"question": pa.string(), "model": pa.dictionary(pa.int32(), pa.string())}
    parquet.write_table(pa.table({"question": unlike, "actual_answer": one_long}), path)
    assert set(sent_types(path).values()) == {pa.dictionary(pa.int32(), pa.string())}


def sent_types(path: Path) -> dict[str, pa.DataType]:
    """Return the types in which the process that reads a file sends its columns."""
    out = io.BytesIO()
    _parquet_process.send(str(path), 1, _parquet_process.ReadingLimits(10_000, 2**30, limits.MIB, 2**25), out)
    out.seek(0)
    pa.ipc.open_stream(out).read_all()
    schema = pa.ipc.open_stream(out).schema
    return dict(zip(schema.names, schema.types, strict=True))
