"""No file, however broken, gets further than a refusal: see :mod:`tests.support.datasets.mutations`.

Four rules hold for each: it is loaded or refused with a documented exit code, without an exception of another kind, in
less than 2 GiB, and nothing is written beside the store.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from leadline.evaluators.core.errors import LeadlineError
from leadline.tasks.load import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.mutations import MAKERS, hostile

INPUTS = int(os.environ.get("LEADLINE_FUZZ", "2000"))
"""Files that are tried; ``make fuzz`` tries more."""

FIRST = int(os.environ.get("LEADLINE_FUZZ_FIRST", "0"))
PROCESSES = 2
GIB = 1024**3
NEVER_LOADED = {"coco.json", "gz", "zip"}
LEAST_SHARE = 0.05
"""Share of the files of each kind that is refused, and that is loaded, at least: so both ways are tried."""


def peak() -> int:
    """Return the largest memory of this process in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def attempt(folder: Path, number: int) -> tuple[str, str]:
    """Load the hostile file of a number; return its kind and what became of it: its exit code, or what went wrong."""
    kind, name, content = hostile(number)
    room = folder / str(number)
    room.mkdir()
    path = room / name
    path.write_bytes(content)
    said = "0"
    try:
        load_dataset(Store.open(room / "store"), path)
    except LeadlineError as error:
        said = str(error.exit_code)
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", str(error)):
            said = f"control characters in {str(error)!r}"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    others = sorted(each.name for each in room.iterdir() if each.name not in ("store", name))
    if others or path.read_bytes() != content:
        said = f"wrote {others or name}"
    shutil.rmtree(room)
    return kind, said


def tried(folder: Path, numbers: range) -> tuple[list[tuple[int, str, str]], int]:
    """Return what became of some files, and the peak of the memory."""
    found = [(number, *attempt(folder, number)) for number in numbers]
    return found, peak()


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")
def test_no_file_gets_further_than_a_refusal(tmp_path: Path) -> None:
    before = set(tmp_path.parent.iterdir())
    parts = [range(FIRST + part, FIRST + INPUTS, PROCESSES) for part in range(PROCESSES)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        results = pool.starmap(tried, [(tmp_path, part) for part in parts])
    found = [each for part, _ in results for each in part]
    assert len(found) == INPUTS
    assert [each for each in found if each[2] not in ("0", "2")] == []
    assert max(memory for _, memory in results) < 2 * GIB
    assert list(tmp_path.iterdir()) == []
    assert set(tmp_path.parent.iterdir()) == before
    for kind in MAKERS:
        outcomes = Counter(said for _, its, said in found if its == kind)
        assert outcomes["2"] >= LEAST_SHARE * outcomes.total(), kind
        assert (outcomes["0"] == 0) if kind in NEVER_LOADED else outcomes["0"] >= LEAST_SHARE * outcomes.total(), kind
