"""No file, however broken, gets further than a refusal: see :mod:`tests.support.datasets.mutations`.

Four rules hold for each: it is loaded or refused with a documented exit code, without an exception of another kind, in
less than 2 GiB, and nothing is written beside the store. One in eight goes through ``leadline evaluate --plan``, as
those of people do.
"""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.cli.main import run
from leadline.evaluators.ground import LeadlineError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.mutations import MAKERS, hostile

INPUTS = int(os.environ.get("LEADLINE_FUZZ", "200"))
"""Files that are tried; ``make fuzz`` tries more."""

FIRST = int(os.environ.get("LEADLINE_FUZZ_FIRST", "0"))
PROCESSES = 2
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
GIB = 1024**3
HARDLY_LOADED = {"coco.json"}
"""Broken, such a file is hardly ever a dataset, but may happen to be one."""
NEVER_LOADED = {"gz", "zip"}
LEAST_SHARE = 0.05
"""Share of the files of each kind that is refused, and that is loaded, at least: so both ways are tried."""


def peak() -> int:
    """Return the largest memory of this process in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def load(room: Path, path: Path) -> str:
    """Load a file; return the exit code that this would have, or what went wrong."""
    try:
        load_dataset(Store.open(room / "store"), path)
    except LeadlineError as error:
        return f"control characters in {str(error)!r}" if CONTROL.search(str(error)) else str(error.exit_code)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "0"


def plan(room: Path, path: Path) -> str:
    """Plan an evaluation of a file by the command; return its exit code, or what went wrong."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code = run(["--store", str(room / "store"), "evaluate", "--plan", "-e", "bleu", "--", str(path)])
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
    if "Traceback" in said.getvalue() or CONTROL.search(said.getvalue()):
        return said.getvalue()
    return str(code)


def attempt(folder: Path, number: int) -> tuple[str, str]:
    """Load the hostile file of a number; return its kind and what became of it: its exit code, or what went wrong."""
    kind, name, content = hostile(number)
    room = folder / str(number)
    room.mkdir()
    path = room / name
    path.write_bytes(content)
    said = (plan if number % 8 == 7 else load)(room, path)
    others = sorted(each.name for each in room.iterdir() if each.name not in ("store", name))
    if others or path.read_bytes() != content:
        said = f"wrote {others or name}"
    shutil.rmtree(room)
    return kind, said


def tried(folder: Path, numbers: range) -> tuple[list[tuple[int, str, str]], int]:
    """Return what became of some files, and the peak of the memory."""
    found = [(number, *attempt(folder, number)) for number in numbers]
    return found, peak()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ("case", "model", "question", "expected_answer", "actual_answer", "retrieved_context", "condition",
          "categories", "relationships", "metadata", "duration_s")  # fmt: skip
names = st.sampled_from(FIELDS) | st.text(max_size=8)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(names, values, max_size=6), max_size=4), st.sampled_from(("jsonl", "json")))
def test_any_json_is_loaded_or_refused(made: list[dict[str, Any]], kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"d.{kind}")
        path.write_text(json.dumps(made) if kind == "json" else "".join(json.dumps(each) + "\n" for each in made))
        assert load(Path(folder), path) in ("0", "2")


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=30)
@given(
    st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=5),
    st.sampled_from(",;\t|:^"),
    st.sampled_from("\"'`"),
    st.sampled_from(("\n", "\r\n", "\r")),
    st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
    st.booleans(),
)
def test_any_dialect_of_csv_is_loaded_or_refused(
    table: list[list[str]], delimiter: str, quote: str, end: str, quoting: Literal[0, 1, 2], doubled: bool
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(
        out, delimiter=delimiter, quotechar=quote, lineterminator=end, quoting=quoting, doublequote=doubled,
        escapechar="\\",
    )  # fmt: skip
    writer.writerows([["question", "actual_answer"], *table])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "d.csv")
        path.write_bytes(out.getvalue().encode())
        assert load(Path(folder), path) in ("0", "2")


@pytest.mark.parametrize("number", [2535, 3114, 7947])
def test_names_that_are_no_text_and_indices_beyond_a_dictionary_are_refused(tmp_path: Path, number: int) -> None:
    assert attempt(tmp_path, number) == (hostile(number)[0], "2")


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
        few = LEAST_SHARE * outcomes.total()
        if kind in NEVER_LOADED:
            assert outcomes["0"] == 0, kind
        else:
            assert (outcomes["0"] < few) == (kind in HARDLY_LOADED), kind
