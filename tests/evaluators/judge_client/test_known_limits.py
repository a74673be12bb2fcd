"""The files in which limits outlive a process."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.call_limits import OLD_S, KnownLimit, LimitFile

NAME = ("The judge", "openai/judge", "http://localhost:1")


@pytest.mark.parametrize("known", [KnownLimit(64, found=True), KnownLimit(1, found=False)])
def test_what_is_kept_is_read(tmp_path: Path, known: KnownLimit) -> None:
    LimitFile(tmp_path / "new", NAME).write(known)
    assert LimitFile(tmp_path / "new", NAME).read() == known
    assert LimitFile(tmp_path / "new", (*NAME, "other")).read() is None


def test_what_is_a_day_old_says_nothing(tmp_path: Path) -> None:
    file = LimitFile(tmp_path, NAME)
    file.write(KnownLimit(64, found=True))
    (path,) = tmp_path.iterdir()
    os.utime(path, (time.time() - OLD_S - 1,) * 2)
    assert file.read() is None


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\xff\x00", b"[]", b"3", b"{}", b"[" * 100_000, b'{"calls": 0, "found": true}', b'{"calls": 3, "found": 1}',
     b'{"calls": true, "found": true}', b'{"calls": "64", "found": true}'],
)  # fmt: skip
def test_a_damaged_file_says_nothing_and_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    file = LimitFile(tmp_path, NAME)
    file.write(KnownLimit(64, found=True))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damaged)
    assert file.read() is None
    file.write(KnownLimit(32, found=True))
    assert file.read() == KnownLimit(32, found=True)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = LimitFile(tmp_path / "file", NAME)
    file.write(KnownLimit(64, found=True))
    assert file.read() is None


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda calls: LimitFile(tmp_path, NAME).write(KnownLimit(calls, found=True)), range(1, 200)))
    assert LimitFile(tmp_path, NAME).read() is not None
    assert len(list(tmp_path.iterdir())) == 1
