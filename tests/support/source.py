"""The product's source as the tests that look at it read it: parsed once."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("evaluators", "tasks", "flows", "plugins", "leadline", "deployments")
"""From the ground up: a room imports rooms to its left."""


@cache
def files_of(room: str) -> tuple[Path, ...]:
    """Return the files of a room, without the tests of plug-ins."""
    files = sorted((ROOT / room).rglob("*.py"))
    return tuple(file for file in files if "tests" not in file.relative_to(ROOT).parts)


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """Return all that a file's syntax tree is made of, the module first."""
    gc.disable()  # a million nodes, none of them garbage: looking at them again and again takes most of the time
    try:
        return tuple(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    finally:
        gc.enable()
