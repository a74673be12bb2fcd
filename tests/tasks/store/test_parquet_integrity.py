"""Files that are not whole Parquet files are told by their ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leadline.evaluators.core.errors import StoreError
from leadline.tasks.store.parquet_integrity import intact_parquet_files


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda whole: b"", "it is empty"),
        (lambda whole: whole[:11], "it is cut off"),
        (lambda whole: whole[:-1], "no whole Parquet file"),
        (lambda whole: whole[4:], "no whole Parquet file"),
        (lambda whole: bytes(len(whole)), "no whole Parquet file"),
        (lambda whole: whole[:4] + whole[-9:], "no whole Parquet file"),
    ],
)
def test_a_damaged_file_is_left_aside_with_one_warning(
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


def test_a_file_that_may_not_be_read_is_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr(Path, "open", refused)
    assert intact_parquet_files(tmp_path, "scores") == []
    assert "may not be read" in caplog.text


def test_a_file_that_cannot_be_looked_at_now_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(StoreError, match=r"a\.parquet cannot be read: Input/output error"):
        intact_parquet_files(tmp_path, "scores")
