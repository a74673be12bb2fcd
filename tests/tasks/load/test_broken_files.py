"""Files that are broken as JSON, CSV, Parquet or text are refused with the place of the damage."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import os
import shlex
import subprocess
import threading
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyarrow.parquet import encryption

from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.load.limits import MIB
from leadline.tasks.load.source import SourceFile
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, faults, load, rows, write

GOOD: dict[str, Any] = {"case": "c1", "model": "m", "question": "Q", "actual_answer": "A"}


def refusal(folder: Path, path: str | Path) -> str:
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(folder / "store"), path)
    (fault,) = refused.value.faults
    return fault.message


@pytest.mark.parametrize(
    ("content", "row", "said"),
    [
        ('{"inputs": [{"key": "a", "input": "Q"},\n {"key": "b" "input": "Q"}]}', "row 2", "line 2, byte 14"),
        ('{"inputs": [{"key": "a", "input": "Q"}', "row 1", "the end of the file"),
        ('{"inputs": [{"key": "a", "input": "Q', "row 1", "the file ends within a value (line 1, byte 13)"),
        ('[{"question": "Q", "actual_answer": "A"},]', "row 2", "expected a value, found ']'"),
        ('[{"question": "Q", "actual_answer": "A"} {"question": "R"}]', "row 1", "expected ',' or ']'"),
        ('[{"question": "Q", "actual_answer": "A"}] tail', "", "the list is over, but the file goes on"),
        ('{"cases": [{"key": "1", "answers": []}]} {}', "", "the document is over, but the file goes on"),
        ('[{"question": "Q", "actual_answer": "\x01"}]', "row 1", "Invalid control character"),
        ('[{"question": "Q", "actual_answer": "\\x"}]', "row 1", "Invalid \\escape"),
        ('{"cases": [{"key": "1"}], 5: 1}', "", "expected a name"),
        ("[" * 100_000, "row 1", ""),
        ('[{"actual_answer": ' + "[" * 3000 + "]" * 3000 + "}]", "row 1", "nested too deeply"),
    ],
)
def test_broken_json_is_said_with_line_and_byte(tmp_path: Path, content: str, row: str, said: str) -> None:
    found = faults(tmp_path, "d.json", content)
    assert len(found) == 1
    assert found[0].startswith(row)
    assert said in found[0]


def test_text_that_is_not_utf8_is_refused_with_its_position(tmp_path: Path) -> None:
    line = json.dumps(GOOD).encode()
    found = faults(tmp_path, "d.jsonl", line + b"\n" + line.replace(b'"A"', b'"\xe9"').replace(b"c1", b"c2"))
    assert len(found) == 1
    assert found[0].startswith("row 2: byte 0xe9 is not UTF-8")
    (fault,) = faults(tmp_path, "d.json", b'[{"question": "\xff", "actual_answer": "A"}]')
    assert "byte 0xff is not UTF-8" in fault
    assert "line 1, byte 16" in fault


def test_every_cell_that_is_not_utf8_is_said_with_row_and_column(tmp_path: Path) -> None:
    content = b'case,question,actual_answer\n1,Q,A\n2,"\n\xe9",caf\xe9\n3,\xc3\xa9,A\n1,Q,A\n4,\xff\xfe,B\n'
    assert faults(tmp_path, "d.csv", content) == [
        "row 2, question: byte 0xe9 is not UTF-8 (byte 2 of the cell); save the file as UTF-8",
        "row 2, actual_answer: byte 0xe9 is not UTF-8 (byte 4 of the cell); save the file as UTF-8",
        "row 4: model 'd' answers case '1' a second time; the first is in row 1",
        "row 5, question: byte 0xff is not UTF-8 (byte 1 of the cell); save the file as UTF-8",
    ]
    (fault,) = faults(tmp_path, "d.csv", b"case,actual_answer,\xe9t\xe9\n1,A,B\n")
    assert fault == "byte 0xe9 is not UTF-8 (line 1, byte 20); save the file as UTF-8"
    path = write(tmp_path, "many.csv", b"case,actual_answer\n" + b"1,\xe9\n" * 500)
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    assert (len(refused.value.faults), refused.value.more) == (200, 300)


def test_a_ragged_row_that_is_not_utf8_is_said_with_its_row(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert faults(tmp_path, "d.csv", b"case,actual_answer\n1,A\n2,B\xe9,more\n3,\xe9\n4,D\n") == [
        "row 2: the row has 3 cells, the header has 2; a quote may be left open",
        "row 3, actual_answer: byte 0xe9 is not UTF-8 (byte 1 of the cell); save the file as UTF-8",
    ]
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"[]", "the file holds no records"),
        (b'{"inputs": []}', "the file holds no records"),
        (gzip.compress(b"{}", mtime=0), "gzip"),
        (b"PK\x03\x04rest", "ZIP"),
        ('{"question": "Q"}'.encode("utf-16"), "UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "binary data"),
        (b"PAR1 and no more", "Parquet file is damaged"),
        (b"actual_answer\n", "no answers"),
        (b"\nquestion,actual_answer\nQ,A\n", "the first line is blank"),
    ],
)
def test_files_that_hold_no_dataset_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (fault,) = faults(tmp_path, "d", content)
    assert said in fault


def test_what_is_no_readable_file_is_refused_in_one_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, tmp_path / "missing.json") == "there is no such file"
    assert "a folder" in refusal(tmp_path, tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "no regular file" in refusal(tmp_path, fifo)
    assert "cannot be read" in refusal(tmp_path, "nul\0byte")
    assert "cannot be read" in refusal(tmp_path, "x" * 5000)


def test_ragged_and_repeated_columns_of_csv_are_refused(tmp_path: Path) -> None:
    found = faults(tmp_path, "d.csv", "case,actual_answer\n1,A\n2\n3,B,C\n4,D,\n1,A\n")
    assert [fault.split(": ")[0] for fault in found] == ["row 2", "row 3", "row 4", "row 5"]
    assert "the row has 1 cell, the header has 2" in found[0]
    assert "a second time; the first is in row 1" in found[3]
    (fault,) = faults(tmp_path, "d.csv", "case,actual_answer,case\n1,A,2\n")
    assert fault == "case: the header names this column more than once"


def test_a_row_that_is_longer_than_a_block_of_csv_is_read_once(tmp_path: Path) -> None:
    answers = ["short" * 200] * 3000 + ["long" * MIB, "the last"]
    text = "".join(f"{number},{answer}\n" for number, answer in enumerate(answers))
    read = rows(load(tmp_path, "d.csv", "case,actual_answer\n" + text))
    assert [row["actual_answer"] for row in read.values()] == answers
    (tmp_path / "ragged").mkdir()
    found = faults(tmp_path / "ragged", "d.csv", "case,actual_answer\n1\n" + text + "9\n")
    assert [fault.split(": ")[0] for fault in found] == ["row 1", "row 3004"]


def test_a_line_of_csv_that_is_too_long_is_said_with_its_number(tmp_path: Path) -> None:
    lines = ["case,actual_answer", *["1,A"] * 500_000, "2," + "x" * 17 * MIB]
    assert faults(tmp_path, "d.csv", "\n".join(lines)) == ["line 500002 is longer than 16 MiB"]


@pytest.mark.parametrize("tail", ['2,"never closed\n3,B\n', '2,"never ""closed""\n3,B', '2,"'])
def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path, tail: str) -> None:
    (fault,) = faults(tmp_path, "d.csv", "case,actual_answer\n1,A\n" + tail)
    assert fault.startswith("row 2")
    assert "never closed" in fault


@pytest.mark.parametrize(
    ("tail", "rows"),
    [('2,5" pipe\n', 2), ('2,5" pipe\n3,"closed"', 3), ('2,5" pipe\n3,"a\nb"\n', 3), ('2,5" pipe\n3,""', 3)],
)
def test_a_stray_quote_is_text(tmp_path: Path, tail: str, rows: int) -> None:
    assert load(tmp_path, "d.csv", "case,actual_answer\n1,A\n" + tail).rows == rows


def test_what_a_library_says_beside_a_parquet_file_is_no_fault_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys; sys.stderr.write('a warning\\n' * 20_000)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert load(tmp_path, "d.parquet", as_parquet([GOOD], tmp_path)).rows == 1


def test_a_workbook_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "it's mine.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    _, command = refusal(tmp_path, path).split("python -c ")
    (program,) = shlex.split(command)
    compile(program, "", "exec")
    assert f'"{path}"' in program
    assert f'"{path.with_suffix(".csv")}"' in program


class KeysAsTheyAre(encryption.KmsClient):  # type: ignore[misc]
    def wrap_key(self, key: bytes, _name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, _name: str) -> bytes:
        return base64.b64decode(key)


@pytest.mark.parametrize("footer_in_plain_sight", [True, False])
def test_an_encrypted_parquet_file_is_refused_though_the_library_aborts(
    tmp_path: Path, footer_in_plain_sight: bool
) -> None:
    config = encryption.EncryptionConfiguration(
        footer_key="k", column_keys={"k": ["actual_answer"]}, plaintext_footer=footer_in_plain_sight
    )
    factory = encryption.CryptoFactory(lambda _: KeysAsTheyAre())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table = pa.table({"question": ["q"], "actual_answer": ["a"]})
    with parquet.ParquetWriter(tmp_path / "made", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    (fault,) = faults(tmp_path, "d.parquet", (tmp_path / "made").read_bytes())
    assert "encrypted" in fault


def test_one_process_reads_a_parquet_file_and_none_is_left(tmp_path: Path) -> None:
    content = as_parquet([{"case": f"{number}", "actual_answer": "A" * 500} for number in range(1000)], tmp_path)
    path, store = write(tmp_path, "d.parquet", content), Store.open(tmp_path / "store")
    begun = []
    start = subprocess.Popen
    with mock.patch.object(subprocess, "Popen", lambda *a, **k: begun.append(start(*a, **k)) or begun[-1]):
        for reused in (False, True):  # the second sends rows that nobody reads, which keeps it from ending by itself
            assert load_dataset(store, path).reused is reused
    gc.collect()
    assert [process.returncode is not None for process in begun] == [True, True]


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    content = as_parquet(
        [GOOD | {"case": str(i), "actual_answer": os.urandom(50).hex()} for i in range(2000)], tmp_path
    )
    middle = len(content) // 2
    found = faults(tmp_path, "d.parquet", content[:middle] + bytes(4000) + content[middle + 4000 :])
    assert any("damaged" in fault for fault in found)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.tasks.load.formats.base import DatasetFormat

    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD]))
    finish = DatasetFormat.finish

    def slow(self: DatasetFormat) -> None:
        worker = threading.Thread(target=lambda: path.write_bytes(as_jsonl([GOOD, GOOD | {"case": "c2"}])))
        worker.start()
        worker.join()
        finish(self)

    monkeypatch.setattr(DatasetFormat, "finish", slow)
    assert "changed while it was read" in refusal(tmp_path, path)


@pytest.mark.parametrize("form", ["d.json", "d.jsonl", "d.csv", "d.parquet", "removed"])
def test_a_file_that_another_replaces_or_that_is_removed_while_it_is_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def content(cases: int) -> bytes:
        records = [GOOD | {"case": f"c{number}"} for number in range(cases)]
        if form == "d.parquet":
            return as_parquet(records, tmp_path)
        return {"d.json": json.dumps(records).encode(), "d.csv": as_csv(records)}.get(form) or as_jsonl(records)

    path = write(tmp_path, form.replace("removed", "d.jsonl"), content(3))
    later = write(tmp_path, "later", content(2))
    fingerprint = SourceFile.fingerprint

    def slow(self: SourceFile) -> str:
        found = fingerprint(self)
        if form == "removed":
            path.unlink()
        elif later.exists():
            later.rename(path)
        return found

    monkeypatch.setattr(SourceFile, "fingerprint", slow)
    store = Store.open(tmp_path / "store")
    assert load_dataset(store, path).rows == 3
    if form != "removed":
        assert load_dataset(store, path).rows == 2
