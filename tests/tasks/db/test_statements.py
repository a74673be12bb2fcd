"""Every statement that the code names is there, and no statement is there for nothing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from leadline.tasks.db import sql

ROOT = Path(__file__).parents[3]
OF_PREFECT = ROOT / "flows" / "prefect" / "prefect_schema.sql"
FILES = sorted({path for room in ("tasks", "flows", "plugins") for path in (ROOT / room).rglob("*.sql")} - {OF_PREFECT})


@cache
def named_in(path: Path) -> set[str]:
    """Return the names of statements in a module; ``*`` stands for what is filled in while it runs."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sql":
            parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
            found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts))
    return found


@cache
def named() -> set[str]:
    rooms = ("tasks", "flows", "plugins", "leadline")
    return {name for room in rooms for path in (ROOT / room).rglob("*.py") for name in named_in(path)}


def test_every_name_has_its_statement() -> None:
    assert len(named()) > 60
    assert [sql(name) for name in named() if "*" not in name]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_statement_is_named(file: Path) -> None:
    patterns = [re.compile(re.escape(name).replace(r"\*", r"\w+")) for name in named()]
    statements = re.findall(r"^-- statement: (\w+)$", file.read_text("utf-8"), flags=re.MULTILINE)
    names = [f"{file.stem}/{statement}" for statement in statements] or [file.stem]
    assert [name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_file_stands_beside_a_module_that_runs_it_and_has_a_name_of_its_own(file: Path) -> None:
    beside = {name.partition("/")[0] for path in file.parent.glob("*.py") for name in named_in(path)}
    assert file.stem in beside or file == ROOT / "tasks" / "db" / "dataset.sql"
    assert [path for path in FILES if path.stem == file.stem] == [file]


def test_a_statement_is_its_part_of_the_file_and_a_file_without_parts_is_whole() -> None:
    assert sql("ledger/spent").strip() == "SELECT calls, usd FROM budgets WHERE run = ?"
    assert sql("dataset").startswith("--")
