"""Lines of a dataset's file on which its rows stand, for programs that point into files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

LARGEST: Final = 64 * 2**20
"""Bytes of a file that is looked through."""

_JSON_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_TEXTS: Final = frozenset({".json", ".jsonl", ".ndjson"})


class Sought(NamedTuple):
    """A row that is looked for: what may stand on its line."""

    case: str
    model: str
    question: str


def find_lines(file: Path, rows: Sequence[Sought]) -> dict[Sought, int]:
    """Return the lines (from 1) of rows in a CSV, TSV, JSON or JSON Lines file, as far as they can be told.

    The first line with the question, the case's key and the model's key is a row's; where none has all three, the one
    with the question, then the one with the case's key, which may be a number that other columns have, too.

    Args:
        file: The file. One that is too large, compressed, binary or gone has no lines.
    """
    best: dict[Sought, tuple[int, int]] = {}
    by_text = _by_text(rows)
    with suppress(OSError, csv.Error):  # what was found until then is true
        if file.suffix.lower() not in {*_TABLES, *_TEXTS} or file.stat().st_size > LARGEST:
            return {}
        for line, texts in _lines(file):
            for row in {row for text in texts for row in by_text.get(text, ())}:
                question, case, model = (_key(text) in texts for text in (row.question, row.case, row.model))
                rank = 4 * question + 2 * case + model
                if rank > best.get(row, (0, 0))[0]:
                    best[row] = (rank, line)
    return {row: line for row, (_, line) in best.items()}


def _by_text(rows: Sequence[Sought]) -> dict[str, list[Sought]]:
    found: dict[str, list[Sought]] = {}
    for row in rows:
        for text in {_key(row.question), _key(row.case)} - {""}:
            found.setdefault(text, []).append(row)
    return found


def _key(text: str) -> str:
    """Return a text as it is compared: loading may have trimmed it."""
    return text.strip()


def _lines(file: Path) -> Iterator[tuple[int, set[str]]]:
    """Yield the texts of each line, or of each record of a table with the line on which it begins."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        if file.suffix.lower() in _TABLES:
            yield from _records(csv.reader(stream, delimiter=_delimiter(file)))
        else:
            for number, line in enumerate(stream, start=1):
                yield number, {_key(_decoded(text)) for text in _JSON_TEXT.findall(line)}


def _records(reader: Any) -> Iterator[tuple[int, set[str]]]:
    last = 0
    for record in reader:
        yield last + 1, {_key(cell) for cell in record}
        last = reader.line_num


def _delimiter(file: Path) -> str:
    """Return what stands between the cells of a table: what its first line has most of."""
    with file.open(encoding="utf-8-sig", errors="replace") as stream:
        head = stream.readline(LARGEST)
    return max((_TABLES[file.suffix.lower()], ",", ";", "\t"), key=head.count)


def _decoded(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
