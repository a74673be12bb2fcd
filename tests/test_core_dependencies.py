"""The core is small, and every module of it can be imported where Unix's own modules are not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
ROOMS = ("evaluators", "tasks", "flows", "plugins", "leadline", "deployments")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

MOST_DIRECT = 23
MOST_OF_ALL = 130
"""Packages of an installation without extras; most of them are Prefect's. Raise it with a reason."""

BOUNDS_OF_PREFECT = {"fastapi"}
"""Named for the versions that Prefect works with; Leadline does not import it."""

UNIX = "fcntl grp posix pty pwd resource syslog termios tty".split()


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def modules_of(name: str) -> set[str]:
    """Return the top-level modules of an installed distribution."""
    return {file.parts[0].removesuffix(".py") for file in distribution(name).files or () if file.suffix == ".py"}


def test_the_core_needs_no_more_than_it_did() -> None:
    assert len(names(PROJECT["dependencies"])) <= MOST_DIRECT
    found: set[str] = set()
    waiting = [(name, frozenset[str]()) for name in names(PROJECT["dependencies"])]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform or Python
        found.add(name)
        for line in package.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    assert len(found) <= MOST_OF_ALL, len(found)


def test_every_dependency_of_the_core_is_imported() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", source, re.MULTILINE))
    unused = {name for name in names(PROJECT["dependencies"]) if not modules_of(name) & imported}
    assert unused == BOUNDS_OF_PREFECT


def test_file_locks_between_processes_are_those_of_filelock() -> None:
    found = [
        file.relative_to(ROOT).as_posix()
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        if re.search(r"\b(fcntl\.|import fcntl|msvcrt|lockf)", file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.e2e
def test_every_module_is_imported_where_there_are_no_modules_of_unix() -> None:
    paths = [
        path.relative_to(ROOT).with_suffix("").parts
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if path.name != "__main__.py" and "tests" not in path.parts
    ]
    named = [".".join(parts if parts[0] == "leadline" else ("leadline", *parts)) for parts in paths]
    modules = sorted(name.removesuffix(".__init__") for name in named)
    script = f"""
import builtins, importlib, os, sys

allowed, absent = builtins.__import__, {UNIX!r}

def without(name, globals=None, locals=None, fromlist=(), level=0):
    asks = str((globals or {{}}).get("__name__", ""))
    if level == 0 and asks.startswith("leadline") and name.partition(".")[0] in absent:
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return allowed(name, globals, locals, fromlist, level)

builtins.__import__ = without
faults = []
for module in {modules!r}:
    try:
        importlib.import_module(module)
    except Exception as error:
        faults.append(f"{{module}}: {{type(error).__name__}}: {{error}}")
print("\\n".join(faults))
sys.stdout.flush()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    assert done.stdout.strip() == "", done.stdout
