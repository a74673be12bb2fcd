"""Citations in an answer, and the contexts that they mean: [1], [2, 5], [manual.pdf], addresses, quotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from leadline.evaluators.citations._quotations import SearchedText, folded_parts, quotations
from leadline.evaluators.data import ContextChunk
from leadline.evaluators.text.sentences import Sentence

MOST: Final = 2_000
"""Citations of an answer that are resolved."""

QUOTED_WORDS: Final = 3
"""Words that a quotation has at least to be a citation."""

FEW_WORDS: Final = 3
"""A sentence of fewer words that cites something, such as "See [2].", only carries what the one before it cites."""

_CODE: Final = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]*`")
_NUMBERS: Final = re.compile(
    r"\[(\d{1,3}(?:\s?[-,;\u2013]\s?\d{1,3}){0,20})\](?!\()|\u3010(\d{1,3})[^\u3011\n]{0,80}\u3011"
)
_LINK: Final = re.compile(r"\[[^\[\]\n]{0,300}\]\(\s?<?(https?://[^\s()<>]{1,1000}|[^\s()<>]{1,300})>?\)")
_ADDRESS: Final = re.compile(r"https?://[^\s()<>\[\]\"'\u201c\u201d]{1,1000}")
_NAMED: Final = re.compile(r"\[(?:(?:doc(?:ument)?|source|file)\s?[:#]?\s?)?([^\[\]\n]{2,200})\](?!\()", re.IGNORECASE)
_RANGE: Final = re.compile(r"(\d{1,3})(?:\s?[-\u2013]\s?(\d{1,3}))?")
_FILE: Final = re.compile(r"[\w .\-/]{1,150}\.[A-Za-z]\w{1,4}$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in an answer.

    Attributes:
        text: How it is written.
        start: First character.
        end: One past the last character.
        chunks: The contexts that it means, by number from 0; empty where there is none such.
        words: Whether it is a quotation, whose words belong to the statement.
    """

    text: str
    start: int
    end: int
    chunks: frozenset[int]
    words: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer, without its markers, and what it cites."""

    text: str
    start: int
    end: int
    citations: tuple[Citation, ...]


def statements(answer: str, sentences: Sequence[Sentence], chunks: Sequence[ContextChunk]) -> tuple[Statement, ...]:
    """Return the sentences of an answer that say something, each with its citations.

    Markers at the beginning of a sentence belong to the one before, if that has none: writers put them behind the full
    stop as well as before it.
    """
    found = sorted(citations(answer, chunks), key=lambda one: (one.start, one.end))
    out: list[Statement] = []
    at = 0
    for sentence in sentences:
        mine: list[Citation] = []
        while at < len(found) and found[at].start < sentence.end:
            mine.append(found[at])
            at += 1
        leading = _leading(answer, sentence.start, mine)
        if out and leading and not out[-1].citations:
            last = out[-1]
            out[-1] = Statement(last.text, last.start, last.end, tuple(leading))
            mine = mine[len(leading) :]
        text = _without(answer, sentence, found)
        if len(text.split()) >= (FEW_WORDS if out and mine else 1) and any(map(str.isalnum, text)):
            out.append(Statement(text, sentence.start, sentence.end, tuple(mine)))
        elif out and mine:
            last = out[-1]
            out[-1] = Statement(last.text, last.start, last.end, (*last.citations, *mine))
    return tuple(out)


def _leading(answer: str, start: int, found: Sequence[Citation]) -> list[Citation]:
    """Return the markers that a sentence begins with."""
    out = []
    for one in found:
        if one.words or any(map(str.isalnum, answer[start : one.start])):
            break
        out.append(one)
        start = one.end
    return out


def _without(answer: str, sentence: Sentence, found: Sequence[Citation]) -> str:
    """Return a sentence without its markers."""
    parts, at = [], sentence.start
    for one in found:
        if not one.words and at <= one.start < sentence.end:
            parts.append(answer[at : one.start])
            at = min(one.end, sentence.end)
    parts.append(answer[at : sentence.end])
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join("".join(parts).split()))


def citations(answer: str, chunks: Sequence[ContextChunk]) -> Iterator[Citation]:
    """Yield the citations of an answer; one that several patterns read counts once."""
    names = _names(chunks)
    quoted = _quoted(answer, chunks)
    answer = _CODE.sub(lambda found: " " * len(found[0]), answer)  # where brackets are indexes
    taken: list[tuple[int, int]] = []
    readers = (_numbers(answer, len(chunks)), _links(answer, names), _named(answer, names), quoted)
    for reader in readers:
        mine: list[tuple[int, int]] = []
        for one in reader:
            if len(mine) >= MOST:
                break
            if one.words or not any(start < one.end and one.start < end for start, end in taken):
                yield one
                mine.append((one.start, one.end))
        taken += mine


def _numbers(answer: str, chunks: int) -> Iterator[Citation]:
    for found in _NUMBERS.finditer(answer):
        text = next(filter(None, found.groups()))
        for part in _RANGE.finditer(text):
            first, last = int(part[1]), int(part[2] or part[1])
            for number in range(first, min(last, first + 50) + 1):
                there = frozenset({number - 1} if 1 <= number <= chunks else ())
                yield Citation(f"[{number}]", found.start(), found.end(), there)


def _links(answer: str, names: Mapping[str, frozenset[int]]) -> Iterator[Citation]:
    if not names:  # contexts without addresses cannot tell whether one is theirs
        return
    places = [(found.start(), found.end(), found[1]) for found in _LINK.finditer(answer)]
    inside = {place for start, end, _ in places for place in range(start, min(end, start + 1400))}
    bare = [(found.start(), found[0].rstrip(".,;:!?")) for found in _ADDRESS.finditer(answer)]
    plain = [(start, start + len(address), address) for start, address in bare if start not in inside]
    for start, end, address in (*places, *plain):
        yield Citation(address[:200], start, end, names.get(_plain_name(address), frozenset()))


def _named(answer: str, names: Mapping[str, frozenset[int]]) -> Iterator[Citation]:
    for found in _NAMED.finditer(answer):
        there = names.get(_plain_name(found[1]), frozenset())
        if there or (names and _FILE.fullmatch(found[1].strip())):  # other brackets are remarks, no citations
            yield Citation(found[0], found.start(), found.end(), there)


def _quoted(answer: str, chunks: Sequence[ContextChunk]) -> Iterator[Citation]:
    searched: list[SearchedText] | None = None
    for quotation in quotations(answer, QUOTED_WORDS):
        searched = [SearchedText(chunk.content) for chunk in chunks] if searched is None else searched
        parts = folded_parts(quotation.text)
        there = frozenset(number for number, each in enumerate(searched) if each.find(parts) is not None)
        yield Citation(quotation.text[:200], quotation.start, quotation.end, there, words=True)


def _names(chunks: Sequence[ContextChunk]) -> dict[str, frozenset[int]]:
    """Return the names by which a document may be cited, each with its contexts."""
    out: dict[str, frozenset[int]] = {}
    for number, chunk in enumerate(chunks):
        if chunk.doc_uri:
            plain = _plain_name(chunk.doc_uri)
            path = PurePosixPath(plain.replace("\\", "/"))
            for name in {plain, path.name, path.stem}:
                if name:
                    out[name] = out.get(name, frozenset()) | {number}
    return out


def _plain_name(name: str) -> str:
    """Return an address or a file's name without scheme, www, fragment, last slash and case."""
    plain = re.sub(r"^(?:https?://)?(?:www\.)?", "", unquote(name.strip()).casefold())
    return plain.partition("#")[0].rstrip("/.,;:!?")
