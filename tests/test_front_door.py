"""``import leadline``: every public name at hand, and nothing imported before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leadline

HEAVY = ("pydantic", "numpy", "prefect", "duckdb", "jinja2", "leadline.evaluators", "leadline.flows", "leadline.tasks")


def test_importing_it_imports_nothing_heavy() -> None:
    script = f"import leadline, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", leadline.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(leadline, name) is not None
    assert name in dir(leadline)


def test_editors_see_the_names_that_are_there() -> None:
    tree = ast.parse(Path(leadline.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.col_offset]
    seen = {
        alias.name: node.module for node in imports for alias in node.names if str(node.module).startswith("leadline.")
    }
    assert seen == {name: f"leadline.{home}" for name, home in leadline._HOMES.items()}


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'leadline' has no attribute 'evaluat'"):
        _ = leadline.evaluat
