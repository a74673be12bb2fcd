"""The rooms by concept: no circle of imports, folders in an order, and one package that everybody imports."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from docs.rooms import ORDER
from tests.support.source import ROOMS, ROOT, files_of, nodes_of


@cache
def modules() -> dict[str, Path]:
    """Return all modules of the rooms by name."""
    files = sorted(file for room in ROOMS for file in files_of(room))
    paths = [file.relative_to(ROOT).with_suffix("").parts for file in files]
    names = (".".join(parts if parts[0] == "leadline" else ("leadline", *parts)) for parts in paths)
    return {name.removesuffix(".__init__"): file for name, file in zip(names, files, strict=True)}


def imports(name: str) -> Iterator[str]:
    """Yield the modules of the rooms that a module imports: at once, in a function, or only for its types."""
    known = modules()
    for node in nodes_of(known[name]):
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


def place(name: str) -> tuple[int, int]:
    """Return how high a module stands: its room, and its folder within the room."""
    room, *parts = modules()[name].relative_to(ROOT).parts
    folders, first = ORDER.get(room, "").split(), parts[0].removesuffix(".py")
    ordered = room in ORDER and (len(parts) > 1 or first in folders)
    return ROOMS.index(room), folders.index(first) if ordered else len(folders)


def test_rooms_and_their_folders_import_downwards_only() -> None:
    upward = [f"{name} > {other}" for name in modules() for other in imports(name) if place(other) > place(name)]
    assert upward == []


def words(text: str) -> set[str]:
    """Return the words of a name or a sentence in the singular, without articles and the like."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ").lower()
    return {re.sub(r"(?<=[^s])s$", "", word) for word in re.findall("[a-z]+", apart)} - {
        "the",
        "a",
        "an",
        "its",
        "it",
        "any",
    }


def described(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield the arguments of a function that its docstring describes: name, type, description."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        types = {arg.arg: ast.unparse(arg.annotation) for arg in ast.walk(node.args) if getattr(arg, "annotation", 0)}
        section = re.search(r"^Args:\n((?: .*\n?)+)", ast.get_docstring(node) or "", flags=re.M)
        for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section[1] if section else "", flags=re.M):
            yield name, types.get(name, ""), text


@pytest.mark.parametrize("room", ROOMS)
def test_a_class_has_a_name_of_its_own_in_its_room(room: str) -> None:
    names = Counter(node.name for file in files_of(room) for node in nodes_of(file) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []


def test_nothing_but_deployments_imports_a_plug_in() -> None:
    ours = [
        name for name, file in modules().items() if file.relative_to(ROOT).parts[0] not in ("plugins", "deployments")
    ]
    assert [f"{name} > {o}" for name in ours for o in imports(name) if o.startswith("leadline.plugins.")] == []


@pytest.mark.parametrize("room", ROOMS)
def test_descriptions_of_arguments_say_more_than_their_names(room: str) -> None:
    hollow = [
        f"{file.relative_to(ROOT)}: {name}: {text}"
        for file in files_of(room)
        for node in nodes_of(file)
        for name, kind, text in described(node)
        if words(text) <= words(name) | words(kind)
    ]
    assert hollow == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_the_thing(room: str) -> None:
    questions = ("What", "Whether", "Which", "How", "Whom", "Who", "Where", "Why")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in files_of(room)
        for node in nodes_of(file)
        if isinstance(node, kinds)
        for text in (ast.get_docstring(node) or "").split("\n")[:1]
        if text.split(" ")[0] in questions
    ]
    assert found == []


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]), ids=lambda p: p.name)
def test_pages_import_the_rooms_from_the_package(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.compile(rf"^\s*(?:from|import) (?:{'|'.join({*ROOMS} - {'leadline'})})\b.*", flags=re.M)
    assert [line for block in blocks for line in found.findall(block)] == []
