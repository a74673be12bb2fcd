"""Faults of the host in each phase of an evaluation: one line, what was computed is kept, the next command ends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from leadline.cli.main import FAILED
from leadline.evaluators.ground import ErrorCode
from leadline.tasks.store.store import Store
from tests.support.stores.results import scores_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS = 30
EVALUATORS = ("bleu", "rouge")
PHASES = ("load", "plan", "score", "publish")
STOPPING = ("full disk", "read-only store")
"""Faults that a run cannot go on with, wherever it meets them."""

BORNE = {
    "no file locks": ("load",),
    "few open files": ("load",),
    "no home": ("load",),
    "clock a day ahead": ("plan", "score"),
    "clock a day back": ("plan", "score"),
}
"""Faults that a run has to bear, and where they begin: they last, but a clock jumps once."""


class Commands:
    """Runs evaluations of one dataset, each in a store and a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dataset = folder / "answers.jsonl"
        lines = [
            {"case": f"c{n}", "model": "m", "question": "?", "expected_answer": f"the tide gauge on mole {n}",
             "actual_answer": f"the tide gauge on the old mole {n}"}
            for n in range(ROWS)
        ]  # fmt: skip
        self.dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def evaluate(self, store: Path, fault: str = "", phase: str = "") -> tuple[int, list[str]]:
        """Return the exit code, and the lines that are about what happened."""
        arguments = ["--store", str(store), "evaluate", str(self.dataset), "-e", ",".join(EVALUATORS)]
        arguments += ["--server", "none", "--quiet", "--json"]
        asked = {"arguments": arguments, "fault": fault, "phase": phase, "store": str(store)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.processes.faulty_command", json.dumps(asked)],
            env=os.environ | {"XDG_STATE_HOME": str(self.folder / "state")}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=200,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on a file system of 64 MB, if one can be mounted here."""
    folder = tmp_path_factory.mktemp("host") / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    yield Commands(folder)
    if mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def segments(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.glob("scores/*/*/[!.]*.parquet")}


def rows_of(files: Mapping[Path, bytes]) -> int:
    return sum(parquet.read_metadata(path).num_rows for path in files)


@pytest.fixture(scope="module")
def undisturbed(commands: Commands) -> list[tuple[Any, ...]]:
    store = commands.folder / "undisturbed"
    assert commands.evaluate(store)[0] == 0
    return scores_of(Store.open(store))


@pytest.mark.parametrize(
    ("fault", "phase"),
    [(fault, phase) for fault in STOPPING for phase in PHASES]
    + [(fault, phase) for fault, phases in BORNE.items() for phase in phases],
)
def test_a_fault_costs_no_score_and_the_next_command_ends_the_work(
    fault: str, phase: str, commands: Commands, undisturbed: list[tuple[Any, ...]]
) -> None:
    store = commands.folder / f"{fault}-{phase}".replace(" ", "-")
    code, said = commands.evaluate(store, fault, phase)
    (commands.folder / "ballast").unlink(missing_ok=True)
    assert not [line for line in said if "Traceback" in line]
    kept = segments(store)
    if fault in STOPPING:
        assert code == FAILED, said
        (line,) = (line for line in said if not line.startswith("Warning: "))
        assert line.startswith("Error [LL-"), said
        assert ErrorCode.RUN_UNEXPECTED.value not in line
        code, said = commands.evaluate(store)
    assert code == 0, said
    outcome = json.loads("\n".join(said))
    assert outcome["reused"] + outcome["computed"] == ROWS * len(EVALUATORS)
    assert kept.items() <= segments(store).items()
    assert rows_of(segments(store)) == ROWS * len(EVALUATORS), "nothing is computed twice"
    if fault in STOPPING:
        assert outcome["computed"] == (0 if phase == "publish" else ROWS * len(EVALUATORS) - rows_of(kept))
    assert scores_of(Store.open(store)) == undisturbed
    shutil.rmtree(store)
