"""The parts of a Markdown text that can be counted: fences, headings, lists, tables, links, paragraphs.

A scanner of lines, linear in the text: it knows what CommonMark and its tables look like on a line of their own, and
nothing of what is nested inside one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"[ ]{0,3}(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+$")
_HEADING: Final = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+(.*))?$")
_BULLET: Final = re.compile(r"[ \t]*[-*+](?:[ \t]+\S|[ \t]*$)")
_NUMBERED: Final = re.compile(r"[ \t]*\d{1,9}[.)](?:[ \t]+\S|[ \t]*$)")
_RULE: Final = re.compile(r"[ ]{0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_QUOTE: Final = re.compile(r"[ ]{0,3}>")
_TABLE: Final = re.compile(r"[ ]{0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_LINK: Final = re.compile(r"(!?)\[[^\[\]\n]{0,1000}\]\([^()\s]{1,2000}\)")
_BOLD: Final = re.compile(r"\*\*\S[^*\n]{0,1000}\*\*|__\S[^_\n]{0,1000}__")
_CLOSING: Final = re.compile(r"(?<![^ \t])#+$")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of code.

    Attributes:
        language: The word behind the opening fence, in small letters; ``""`` without one.
        content: What stands in the block.
        start: Where that begins in the text.
        closed: Whether the block ends before the text does.
    """

    language: str
    content: str
    start: int
    closed: bool


@dataclass(frozen=True, slots=True)
class MarkdownParts:
    """The parts of a text.

    Attributes:
        fences: Blocks of code, in order.
        headings: Headings with their level, in order.
        counts: How many there are of ``bullets``, ``numbered_items``, ``tables``, ``links``, ``images``, ``bold``,
            ``quotes`` (lines), ``paragraphs``, ``rules``.
    """

    fences: tuple[Fence, ...]
    headings: tuple[tuple[int, str], ...]
    counts: Counter[str]

    @property
    def is_plain(self) -> bool:
        """True where nothing of it is Markdown: there are paragraphs at most."""
        return not self.fences and not self.headings and not self.counts.keys() - {"paragraphs"}


def fences(text: str) -> tuple[Fence, ...]:
    """Return the fenced blocks of code of a text, in order; one that is not closed ends with the text."""
    return _scan(text)[0]


def markdown_parts(text: str) -> MarkdownParts:
    """Return the parts of a text, apart from what stands in its blocks of code."""
    blocks, lines = _scan(text)
    headings: list[tuple[int, str]] = []
    counts: Counter[str] = Counter()
    before = ""
    in_paragraph = False
    for line in lines:
        kind = _kind_of(line, before)
        heading = _HEADING.match(line)
        if kind == "heading" and heading:
            headings.append((len(heading[1]), _CLOSING.sub("", (heading[2] or "").strip()).strip()))
        elif kind not in ("text", "blank", "heading"):
            counts[kind] += 1
        elif kind == "text" and not in_paragraph:
            counts["paragraphs"] += 1
        in_paragraph = kind == "text" or (kind in ("bullets", "numbered_items", "quotes"))
        if kind != "blank":
            for link in _LINK.finditer(line):
                counts["images" if link[1] else "links"] += 1
            counts["bold"] += sum(1 for _ in _BOLD.finditer(line))
        before = line
    return MarkdownParts(blocks, tuple(headings), +counts)


def _kind_of(line: str, before: str) -> str:
    if not line.strip():
        return "blank"
    if _HEADING.match(line):
        return "heading"
    if "|" in before and "-" in line and "|" in line and _TABLE.match(line):
        return "tables"
    if _RULE.match(line):
        return "rules"
    for kind, pattern in (("bullets", _BULLET), ("numbered_items", _NUMBERED), ("quotes", _QUOTE)):
        if pattern.match(line):
            return kind
    return "text"


def _scan(text: str) -> tuple[tuple[Fence, ...], list[str]]:
    """Return the fenced blocks, and the lines outside of them; a blank line stands for each block."""
    blocks: list[Fence] = []
    outside: list[str] = []
    opened: tuple[str, str, int] | None = None
    at = 0
    for whole in text.splitlines(keepends=True):
        line = whole.rstrip("\r\n")
        found = _FENCE.match(line)
        if opened is None:
            if found:
                opened = found[1], found[2].lower(), at + len(whole)
                outside.append("")
            else:
                outside.append(line)
        elif found and not found[2] and found[1][0] == opened[0][0] and len(found[1]) >= len(opened[0]):
            blocks.append(Fence(opened[1], text[opened[2] : at], opened[2], closed=True))
            opened = None
        at += len(whole)
    if opened is not None:
        blocks.append(Fence(opened[1], text[opened[2] :], min(opened[2], len(text)), closed=False))
    return tuple(blocks), outside
