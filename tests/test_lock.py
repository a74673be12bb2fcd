"""The one lock of all installs: exact, unambiguous, and with all that the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
LOCK = [Requirement(line) for line in LINES]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version(entry: Requirement) -> str:
    return str(entry.specifier).removeprefix("==")


def test_a_name_stands_once_or_with_markers_that_tell_its_versions_apart() -> None:
    names = [canonicalize_name(entry.name) for entry in LOCK]
    for entry, name in zip(LOCK, names, strict=True):
        assert re.fullmatch(r"==[\w.+!-]+", str(entry.specifier)), entry
        assert names.count(name) == 1 or entry.marker is not None, f"{name} stands twice"


def test_all_that_the_project_asks_for_is_locked_to_a_version_that_it_allows() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for line in (*PROJECT["dependencies"], *(line for extra in extras for line in extra)):
        asked = Requirement(line)
        locked = [entry for entry in LOCK if canonicalize_name(entry.name) == canonicalize_name(asked.name)]
        assert locked, f"{asked.name} is not locked: make constraints"
        assert all(asked.specifier.contains(version(entry), prereleases=True) for entry in locked), line


def test_images_find_the_version_of_pytorch() -> None:
    """The Dockerfile takes it from the line, so that it may have no marker."""
    [torch] = [line for line in LINES if line.startswith("torch==")]
    assert re.fullmatch(r"torch==[\d.]+", torch)


def test_programs_that_check_and_tools_with_bridges_are_locked_too() -> None:
    for name in ("tools.txt", "bridges.txt"):
        lines = (ROOT / ".ci" / name).read_text().splitlines()
        assert all(re.match(r"[\w.-]+==[\w.+]+( ; |$)", line) for line in lines if not line.startswith("#")), name


def test_all_that_is_locked_has_hashes_and_what_depends_on_the_index_has_a_file_of_its_own() -> None:
    named: dict[str, set[str]] = {}
    for name in ("hashes.txt", "hashes-cuda.txt"):
        entries = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
        assert all(re.search(r" --hash=sha256:[0-9a-f]{64}(\s|$)", entry) for entry in entries)
        named[name] = {entry.partition(" \\")[0].strip() for entry in entries}
    assert named["hashes.txt"] | named["hashes-cuda.txt"] == set(LINES)
    of_cuda = {line for line in LINES if re.match(r"(torch|triton|nvidia-|cuda-)", line)}
    assert named["hashes-cuda.txt"] == of_cuda
