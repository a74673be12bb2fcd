"""Medians of a benchmark by commit, in a file, and what became slower since the last ones of the same machine.

A line of the file is one measurement of one tree: ``{"commit", "date", "machine", "medians": {name: seconds}}``. A tree
with changes that are not committed is ``COMMIT+``, and is compared with what was measured before as any other.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import describe

ROOT: Final = Path(__file__).parents[1]
FILE: Final = Path(__file__).with_name("end_to_end.jsonl")

SLOWER: Final = 1.15
"""From this ratio on a median is told as slower: repeated medians of an idle machine differ by up to a tenth."""


def slower(medians: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return by which factor medians are longer, for those that are so by more than :data:`SLOWER`.

    Args:
        medians: Seconds by name.
        before: The same, measured earlier; a name that is in one of the two only is left out.
    """
    ratios = {name: seconds / before[name] for name, seconds in medians.items() if before.get(name)}
    return {name: ratio for name, ratio in ratios.items() if ratio > SLOWER}


def latest(file: Path, machine: str) -> dict[str, tuple[float, str]]:
    """Return the last median of each name on a machine, with its commit; nothing where there is no file.

    Args:
        machine: As :func:`this_machine` describes it.
    """
    found: dict[str, tuple[float, str]] = {}
    for entry in _entries(file):
        if entry["machine"] == machine:
            found |= {name: (seconds, entry["commit"]) for name, seconds in entry["medians"].items()}
    return found


def keep(file: Path, medians: Mapping[str, float]) -> list[str]:
    """Add medians to the file; return one line for each that became slower.

    Args:
        medians: Seconds by name; nothing is written without any.
    """
    if not medians:
        return []
    machine = this_machine()
    before = latest(file, machine)
    worse = slower(medians, {name: seconds for name, (seconds, _) in before.items()})
    entry = {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine,
        "medians": {name: round(seconds, 3) for name, seconds in medians.items()},
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    return [
        f"SLOWER than at {before[name][1]} by {ratio - 1:.0%}: {name}, {before[name][0]:.2f} s -> {medians[name]:.2f} s"
        for name, ratio in worse.items()
    ]


def this_machine() -> str:
    """Return what machine this is, with its processor: figures of two models are not compared."""
    return f"{_processor()}; {describe()}"


def commit() -> str:
    """Return the commit of this tree, with a ``+`` where files differ from it; ``unknown`` outside of a checkout."""
    told = subprocess.run(
        ["git", "describe", "--always", "--abbrev=8", "--match=", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
    )
    return told.stdout.strip() or "unknown"


def _entries(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
