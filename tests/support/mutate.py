"""Changes one operator or number of the product at a time, and prints the changes that its own tests do not notice.

``make mutate`` (``python -P tests/support/mutate.py --help``) mutates the lines that differ from the main branch, in a
copy of the working tree. A mutant meets the tests of its module in a process that is forked from one which has imported
what they need of other packages: that takes seconds. A survivor is a line ``file:line: was → is``.

There are mutmut, which runs all tests before the first mutant and mutates functions only (3.8), and cosmic-ray, which
starts one and the same command for each mutant (8.7).
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple, TypeAlias

import pytest

ROOMS: Final = ("evaluators", "tasks", "flows", "plugins", "leadline", "deployments")
IMPORTED: Final = (
    "hypothesis", "numpy", "scipy.stats", "pandas", "duckdb", "pyarrow.parquet", "prefect", "jinja2", "fastapi", "rich",
)  # fmt: skip
LEFT_OUT: Final = "not e2e and not browser and not postgres and not service and not bridges and not soak"
STEPS: Final = (f"not slow and {LEFT_OUT}", f"slow and {LEFT_OUT}")
"""Most mutants are killed by the first."""

PASSED: Final = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
LEAST_CPU_S: Final = 20.0
SWAPPED: Final[dict[type, type]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
EXTREMES: Final = {"min": "max", "max": "min"}
Node: TypeAlias = ast.expr | ast.Return | ast.AugAssign


class Mutant(NamedTuple):
    """One change: the text of a node, and what stands in its place."""

    file: Path
    node: Node
    becomes: Node

    def __str__(self) -> str:
        was, now = (shorten(ast.unparse(node), 160, placeholder=" …") for node in (self.node, self.becomes))
        return f"{self.file}:{self.node.lineno}: {was} → {now}"

    def source(self, text: bytes) -> bytes:
        """Return the module with the change."""
        starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
        node, new = self.node, ast.unparse(self.becomes)
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return text[:begin] + (f"({new})" if isinstance(node, ast.expr) else new).encode() + text[end:]


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are run as the program runs: no types, decorators or texts with places."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr) and not checked:
                yield node
                yield from nodes(node)


def changes(node: Node) -> Iterator[Node]:
    """Yield what may stand in a node's place."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for at, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:at], SWAPPED[type(op)](), *ops[at + 1 :]], others)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(SWAPPED[type(op)](), values)
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield ast.BinOp(left, SWAPPED[type(op)](), right)
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value):
            yield ast.AugAssign(target, SWAPPED[type(op)](), value)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in EXTREMES:
            yield ast.Call(ast.Name(EXTREMES[name]), args, keywords)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))


def mutants_of(file: Path, lines: set[int] | None) -> list[Mutant]:
    """Return the mutants of a module, those that touch some lines, or all."""
    found = []
    for node in nodes(ast.parse(file.read_bytes())):
        if isinstance(node, Node):
            touched = lines is None or not lines.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1))
            found += [Mutant(file, node, each) for each in changes(node) if touched]
    return found


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def changed_lines(base: str) -> dict[Path, set[int]]:
    """Return by module the lines that differ from where this branch left the base."""
    found: defaultdict[Path, set[int]] = defaultdict(set)
    file = Path()
    for line in git("diff", "--merge-base", "--unified=0", "--no-ext-diff", base, "--", *ROOMS).splitlines():
        if line.startswith("+++ "):
            file = Path(line[len("+++ b/") :])
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            found[file].update(range(first, first + int(hunk[2] or 1)))
    return {path: lines for path, lines in found.items() if is_product(path) and lines - {0}}


def is_product(file: Path) -> bool:
    """Return whether a file of the rooms is a module that has tests, and none of a plug-in's tests."""
    return file.suffix == ".py" and "tests" not in file.parts


def usual_base() -> str:
    """Return the main branch, or the commit before where there is none, or this is it."""
    known = subprocess.run(["git", "diff", "--quiet", "origin/main", "HEAD", "--", *ROOMS], capture_output=True)
    return "origin/main" if known.returncode == 1 else "HEAD~1"


def tests_of(file: Path) -> list[str]:
    """Return a module's own tests: those in its folder that name it, else those in its room, else its folder's.

    A folder without a test has those of the one above it, if that is not the whole room.
    """
    room = Path(*file.parts[:2], "tests") if file.parts[0] == "plugins" else Path("tests", file.parts[0])
    folder = room.joinpath(*file.parent.parts[2:] if file.parts[0] == "plugins" else file.parent.parts[1:])
    package = ".".join(file.parent.parts if file.parts[0] == "leadline" else ("leadline", *file.parent.parts))
    name = f"{package}.{file.stem}"
    named = re.compile(rf"{re.escape(name)}\b|from {re.escape(package)} import [^\n]*\b{file.stem}\b")
    own = folder / f"test_{file.stem.lstrip('_')}.py"
    for place in (folder, room):
        found = {test for test in place.rglob("test_*.py") if named.search(test.read_text(encoding="utf-8"))}
        if found := found | ({own} if own.exists() else set()):
            return [str(test) for test in sorted(found, key=lambda test: (test != own, test))]
    above = (folder, *folder.parents)[: len(folder.parts) - 2]
    return next((found for place in above if (found := sorted(map(str, place.glob("test_*.py"))))), [])


def run_tests(tests: Sequence[str], marks: str, limit_s: float | None = None) -> tuple[int, float]:
    """Run tests in a forked process, and return its exit code and its seconds of processor time.

    It is killed after so many of them, and after ten times as many that it waits.
    """
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        if limit_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 5))
        options = ["-x", "-m", marks, "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "timeout=120"]
        os._exit(int(pytest.main([*options, *tests])))
    try:
        while True:
            pid, status, used = os.wait4(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
            if limit_s is not None and time.monotonic() > began + 10 * limit_s:
                return -signal.SIGKILL, 10 * limit_s
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with all that the tests have started


def survivors(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Yield each mutant of the working directory with whether it survives; none of modules whose tests fail anyway."""
    by_file: defaultdict[Path, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    clock = int(time.time())
    for file, of_file in sorted(by_file.items()):
        text, tests = file.read_bytes(), tests_of(file)
        as_it_is = {marks: run_tests(tests, marks) for marks in STEPS if tests}
        if not tests or any(code not in PASSED for code, _ in as_it_is.values()):
            why = f"its tests fail anyway ({' '.join(tests)})" if tests else "it has no tests of its own"
            print(f"{file}: left out, {why}", flush=True)
            continue
        for mutant in of_file:
            clock += 2  # compiled modules are told apart by the seconds of their sources
            file.write_bytes(mutant.source(text))
            os.utime(file, (clock, clock))
            limits = {marks: max(LEAST_CPU_S, 3 * cpu_s) for marks, (code, cpu_s) in as_it_is.items() if not code}
            yield mutant, all(run_tests(tests, marks, limit_s)[0] in PASSED for marks, limit_s in limits.items())
        clock += 2
        file.write_bytes(text)
        os.utime(file, (clock, clock))


def main() -> int:
    """Print the survivors; returns 1 if there are more than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="mutate every line of the rooms")
    parser.add_argument("--base", default="", help="commit; the main branch by default, or the commit before")
    parser.add_argument("--most", type=int, default=100, help="mutants at most, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--allow", type=float, default=0.0, help="per cent of the mutants that may survive")
    parser.add_argument("--imported", nargs="*", default=IMPORTED, help="modules that are imported once for all tests")
    given = parser.parse_args()
    every = {Path(name): None for name in git("ls-files", *ROOMS).splitlines() if is_product(Path(name))}
    lines = every if given.all else changed_lines(given.base or usual_base())
    mutants = [mutant for file in sorted(lines) for mutant in mutants_of(file, lines[file])]
    drawn = random.Random(given.seed).sample(mutants, min(given.most, len(mutants)))
    with tempfile.TemporaryDirectory(prefix="leadline-mutants-") as folder:
        for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
            if Path(name).exists():
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, Path(folder, name), follow_symlinks=False)
        os.chdir(folder)
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = folder
        for module in given.imported:
            import_module(module)
        lived, tried = 0, 0
        for mutant, survives in survivors(drawn):
            tried += 1
            lived += survives
            if survives:
                print(mutant, flush=True)
    print(f"{lived} of {tried} mutants survive; {len(mutants)} were to be had", flush=True)
    return int(lived > given.allow / 100 * tried)


if __name__ == "__main__":
    sys.exit(main())
