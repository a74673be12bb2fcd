"""Parquet files appear complete or not at all, and damaged ones are found by their ends."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leadline.evaluators.ground import StoreError
from leadline.tasks.store import parquet_files as module
from leadline.tasks.store.parquet_files import atomic_parquet, intact_parquet_files


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"number": pa.array(range(first, first + count), pa.int64())})


def test_what_was_added_is_there_in_order(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.parquet"
    with atomic_parquet(path) as file:
        for first in range(0, 100, 10):
            file.add(numbers(first, 10))
    assert file.rows == 100
    assert pq.read_table(path)["number"].to_pylist() == list(range(100))
    assert pq.ParquetFile(path).num_row_groups == 1


def test_rows_do_not_wait_in_memory_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_BYTES", 800)
    path = tmp_path / "file.parquet"
    with atomic_parquet(path) as file:
        for first in range(0, 250, 50):
            file.add(numbers(first, 50))
        assert not path.exists()
    assert pq.read_table(path)["number"].to_pylist() == list(range(250))
    assert [pq.ParquetFile(path).metadata.row_group(n).num_rows for n in range(3)] == [100, 100, 50]


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    with atomic_parquet(tmp_path / "file.parquet") as file:
        pass
    assert (file.rows, list(tmp_path.iterdir())) == (0, [])


@pytest.mark.parametrize("group", [1, 1 << 20])
def test_a_failure_leaves_nothing_and_an_earlier_file_as_it_was(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_BYTES", group)
    path = tmp_path / "file.parquet"
    path.write_bytes(b"earlier")

    def fail() -> None:
        with atomic_parquet(path) as file:
            file.add(numbers(0, 10))
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        fail()
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.parquet"]
    assert path.read_bytes() == b"earlier"


def test_a_killed_process_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, pyarrow as pa\n"
        "from leadline.tasks.store.parquet_files import atomic_parquet\n"
        f"with atomic_parquet(pathlib.Path({str(tmp_path / 'file.parquet')!r})) as file:\n"
        "    file.add(pa.table({'number': pa.array(range(1 << 18), pa.int64())}))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode < 0
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".tmp")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda whole: b"", "it is empty"),
        (lambda whole: whole[:11], "it is cut off"),
        (lambda whole: whole[:-1], "not a complete Parquet file"),
        (lambda whole: whole[4:], "not a complete Parquet file"),
        (lambda whole: bytes(len(whole)), "not a complete Parquet file"),
        (lambda whole: whole[:4] + whole[-9:], "not a complete Parquet file"),
    ],
)
def test_a_damaged_file_is_ignored_with_one_warning(
    tmp_path: Path, damage: Callable[[bytes], bytes], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"{name}.parquet")
    (tmp_path / "a.parquet").write_bytes(damage((tmp_path / "a.parquet").read_bytes()))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert intact_parquet_files(tmp_path, "scores") == [tmp_path / "b.parquet"]
    (record,) = caplog.records
    assert str(tmp_path / "a.parquet") in record.getMessage()
    assert said in record.getMessage()


def test_other_files_and_temporary_ones_are_not_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("config.json", ".a.parquet.0.1.tmp", ".hidden.parquet"):
        (tmp_path / name).touch()
    assert intact_parquet_files(tmp_path, "scores") == []
    assert intact_parquet_files(tmp_path / "none", "scores") == []
    assert not caplog.records


def test_a_file_that_may_not_be_read_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr(Path, "open", refused)
    assert intact_parquet_files(tmp_path, "scores") == []
    assert "no permission to read it" in caplog.text


def test_a_file_that_cannot_be_looked_at_now_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(StoreError, match=r"a\.parquet cannot be read: Input/output error"):
        intact_parquet_files(tmp_path, "scores")
