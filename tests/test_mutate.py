"""Mutants of changed lines: those that a module's own tests notice, and those that they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MUTATE = Path(__file__).parent / "support" / "mutate.py"
BEFORE = "LIMIT = 3\n\n\ndef few(n: int) -> bool:\n    return True\n"
AFTER = BEFORE.replace("True", "n < LIMIT")
TEST = "from leadline.tasks.tiny.limits import few\n\n\ndef test_few():\n    assert few(2)\n    assert not few(4)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one module, whose last commit changed one line."""
    files = {"tasks/tiny/limits.py": BEFORE, "tests/tasks/tiny/test_limits.py": TEST, "leadline/__init__.py": "",
             "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n'}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "leadline" / "tasks").symlink_to("../tasks")
    run_git(tmp_path, "init", "-q")
    commit(tmp_path)
    (tmp_path / "tasks" / "tiny" / "limits.py").write_text(AFTER, encoding="utf-8")
    commit(tmp_path)
    return tmp_path


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments], check=True)


def commit(folder: Path) -> None:
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "-qm", "x")


def mutate(project: Path, *options: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines that it says."""
    done = subprocess.run(
        [sys.executable, "-P", str(MUTATE), *options, "--imported"], cwd=project, capture_output=True, text=True,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, timeout=120,
    )  # fmt: skip
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_mutant_of_a_changed_line_that_its_tests_do_not_notice_is_a_survivor(project: Path) -> None:
    survivor = "tasks/tiny/limits.py:5: n < LIMIT → n <= LIMIT"
    assert mutate(project) == (1, [survivor, "1 of 2 mutants survive; 2 were to be had"])
    assert mutate(project, "--allow", "50")[0] == 0
    (project / "tests" / "tasks" / "tiny" / "test_limits.py").write_text(TEST + "    assert not few(3)\n")
    assert mutate(project) == (0, ["0 of 2 mutants survive; 2 were to be had"])
    assert (project / "tasks" / "tiny" / "limits.py").read_text() == AFTER, "it changes a copy"


def test_all_lines_are_mutated_or_as_many_as_asked_for_drawn_by_the_seed(project: Path) -> None:
    assert mutate(project, "--all") == (
        1,
        [
            "tasks/tiny/limits.py:1: 3 → 4",
            "tasks/tiny/limits.py:5: n < LIMIT → n <= LIMIT",
            "2 of 4 mutants survive; 4 were to be had",
        ],
    )
    one = mutate(project, "--all", "--most", "1", "--seed", "2")
    assert one[1][-1].endswith(" of 1 mutants survive; 4 were to be had")
    assert one == mutate(project, "--all", "--most", "1", "--seed", "2")


def test_a_module_whose_tests_fail_anyway_is_said_to_be_left_out(project: Path) -> None:
    (project / "tests" / "tasks" / "tiny" / "test_limits.py").write_text(TEST.replace("not", ""), encoding="utf-8")
    code, said = mutate(project)
    assert code == 0
    assert said[0] == "tasks/tiny/limits.py: left out, its tests fail anyway (tests/tasks/tiny/test_limits.py)"
