"""The rooms by concept: no circle of imports, no name twice in a room, and one package that everybody imports."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("evaluators", "tasks", "flows", "deployments")

OFTEN = {"flows": {"__init__.py", "config.py", "flow.py", "prepare.py"}}
"""Names that a room may use more than once: each flow's folder has the same three."""


@cache
def modules() -> dict[str, Path]:
    """Return all modules of the rooms by name."""
    files = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    names = ("leadline." + ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    return {name.removesuffix(".__init__"): file for name, file in zip(names, files, strict=True)}


def imports(name: str) -> Iterator[str]:
    """Yield the modules of the rooms that a module imports: at once, in a function, or only for its types."""
    known = modules()
    for node in ast.walk(ast.parse(known[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in known else node.module


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports, in order, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(module) for module in error.args[1]]
    return []


def test_no_imports_go_in_a_circle() -> None:
    graph = {name: set(imports(name)) - {name} for name in modules()}
    assert circle(graph) == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_name_is_used_twice_in_a_room(room: str) -> None:
    names = Counter(file.name for file in (ROOT / room).rglob("*.py"))
    assert {name for name, times in names.items() if times > 1} <= OFTEN.get(room, {"__init__.py"})


def public_functions(body: list[ast.stmt], *, method: bool = False) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """Yield public functions and methods of public classes, each with whether it is a method."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, method=True)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node, method  # type: ignore[misc]


@cache
def interfaces() -> frozenset[str]:
    """Return the methods that some class describes with its arguments: others that implement them need not."""
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in modules().values())
    found = (each for tree in trees for each in public_functions(tree.body))
    return frozenset(node.name for node, method in found if method and "Args:" in (ast.get_docstring(node) or ""))


@pytest.mark.parametrize("room", ROOMS)
def test_public_functions_describe_their_arguments(room: str) -> None:
    lacking = []
    for file in (ROOT / room).rglob("*.py"):
        for node, method in public_functions(ast.parse(file.read_text(encoding="utf-8")).body):
            arguments = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            several = len([name for name in arguments if name not in ("self", "cls")]) > 1
            commands = any("command" in ast.unparse(each) for each in node.decorator_list)
            text = ast.get_docstring(node) or ""
            described = "Args:" in text or (method and (node.name in interfaces() or "See :class:" in text))
            if several and not commands and not described:
                lacking.append(f"{file.relative_to(ROOT)}: {node.name}")
    assert lacking == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_the_thing(room: str) -> None:
    questions = ("What", "Whether", "Which", "How", "Whom", "Who", "Where", "Why")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
        for text in (ast.get_docstring(node) or "").split("\n")[:1]
        if text.split(" ")[0] in questions
    ]
    assert found == []


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]), ids=lambda p: p.name)
def test_pages_import_the_rooms_from_the_package(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(ROOMS)})\b.*", flags=re.M)
    assert [line for block in blocks for line in found.findall(block)] == []
