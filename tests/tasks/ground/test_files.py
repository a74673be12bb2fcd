"""Files that appear under their names are on disk by then, so that they survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.tasks.ground.files import publish_folder, replacing


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, bool]] = []
    target = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, target.exists())))
    with replacing(target) as temporary:
        temporary.write_text("x")
    assert synced == [(target.stat().st_ino, False)]


def test_the_files_of_a_folder_that_later_runs_trust_are_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))

    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        for name in ("rows", "inner/manifest"):
            (folder / name).write_text("x")

    made = publish_folder(tmp_path / "made", fill)
    assert sorted(synced) == sorted((made / name).stat().st_ino for name in ("rows", "inner/manifest"))
