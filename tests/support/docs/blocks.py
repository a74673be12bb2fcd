"""Code blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SHELL: Final = ("console", "sh", "bash")
PROGRAMS: Final = {"leadline", "make", "pip", "source", "export", "pre-commit", "ls", "python"}
"""Programs whose commands need no mark. Any other is not on every machine."""

_BLOCK: Final = re.compile(
    r"(?:<!-- (?:not run: (?P<reason>[^>]+?)|file: (?P<named>[\w./-]+)) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>[a-z]+)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_FILE: Final = re.compile(r"(?:#|\{#|--|//) (?P<path>[\w./-]+\.[a-z]+)(?: #\})?$")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: The page, seen from the repository's root.
        line: The line of its first fence.
        language: What stands after the fence.
        text: What it holds.
        reason: Why it cannot be run here, by the comment ``<!-- not run: reason -->`` before it, or ``""``.
        named: The file that it is, by the comment ``<!-- file: NAME -->`` before it, or ``""``.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str
    named: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str:
        """The file that it is to be written to, which its first line may name in a comment."""
        if self.named:
            return self.named
        found = _FILE.match(self.text.split("\n", 1)[0])
        return found["path"] if found else ""

    @property
    def script(self) -> str:
        """The commands without their output."""
        if self.language == "bash":
            return self.text
        lines, more = [], False
        for line in self.text.splitlines():
            if more or line.startswith("$ "):
                lines.append(line.removeprefix("$ "))
                more = line.endswith("\\")
        return "\n".join(lines) + "\n"

    def commands(self) -> Iterator[list[str]]:
        """Yield each simple command of a console block as words, without what it is piped or redirected to."""
        for line in self.script.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for mark in ("|", ">", "&&"):
                words = words[: words.index(mark)] if mark in words else words
            if words:
                yield [words[0].removeprefix(".venv/bin/"), *words[1:]]

    def leadline(self) -> Iterator[list[str]]:
        """Yield the arguments of each command ``leadline``."""
        for program, *arguments in self.commands():
            if program == "leadline":
                yield arguments


def pages() -> list[Path]:
    """Return the pages that people write; those of the evaluators are generated."""
    return sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/recipes/*.md"), *ROOT.glob("examples/*.md")]
    )


def walkthroughs() -> list[Path]:
    """Return the pages that begin with nothing: each brings all files that its commands read."""
    return [ROOT / "docs" / "tutorial.md", ROOT / "docs" / "coming-from.md", *sorted(ROOT.glob("docs/recipes/*.md"))]


@cache
def blocks() -> tuple[Block, ...]:
    """Return all code blocks of all pages, in their order."""
    return tuple(block for page in pages() for block in blocks_of(page))


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        yield Block(
            page=page.relative_to(ROOT).as_posix(),
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=textwrap.dedent(found["text"]),
            reason=found["reason"] or "",
            named=found["named"] or "",
        )
