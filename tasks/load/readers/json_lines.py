"""JSON Lines: one object a line."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import BLOCK_BYTES, MAX_RECORD, MIB
from leadline.tasks.load.readers.item import Block, Item
from leadline.tasks.load.readers.json_values import Broken, decode, has_too_many_values, repeat_no_names, repeated_names

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile


def read_lines(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read whole lines block by block; a line that is longer than a record may be is the last one that is read.

    Args:
        faults: Takes the faults.
    """
    with source.open() as file:
        row, rest = 0, b""
        while data := file.read(BLOCK_BYTES) or rest:
            at_end = data is rest
            data = data if at_end else rest + data
            first = data.find(b"\n") + 1 or len(data)
            if first > MAX_RECORD:
                faults.lose()
                limit = f"{MAX_RECORD // MIB} MiB"
                faults.add(Place(row + 1), "", f"the line is longer than {limit}; nothing behind it was read")
                return
            end = len(data) if at_end else data.rfind(b"\n") + 1
            lines, rest = data[:end], b"" if at_end else data[end:]
            if lines:
                yield Block(partial(_items, lines, row, faults), partial(_records, lines, row))
                row += lines.count(b"\n")
            if at_end:
                return


def _items(lines: bytes, row: int, faults: Faults) -> Iterator[Item]:
    """Read one record a line; a broken line is noted, and reading goes on behind it."""
    for line in io.BytesIO(lines):
        row += 1
        if line.isspace():
            continue
        try:
            value = decode(line)
        except Broken as error:
            faults.lose(line)
            faults.add(Place(row), "", f"{error.message} (byte {error.offset + 1} of the line)")
        else:
            faults.repeats(Place(row), repeated_names(line, value))
            yield Item("", row, value, len(line))


class JsonRecords:
    """Objects that were decoded from lines without a blank one among them.

    Args:
        values: The objects.
        row: Number of lines before them.
        size: Bytes of the lines.
    """

    def __init__(self, values: list[dict[str, Any]], row: int, size: int) -> None:
        self._values = values
        self.rows = range(row + 1, row + 1 + len(values))
        self.size = size

    def namings(self) -> Iterable[Mapping[str, object]]:
        """Return records that together have all names, in the order in which these first occur."""
        names: set[str] = set()
        for value in self._values:
            if not names.issuperset(value):
                names.update(value)
                yield value

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [value.get(name) for value in self._values]

    def others(self, without: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each record that are not absent, but for those of some columns."""
        for value in self._values:
            yield {name: its for name, its in value.items() if its is not None and name not in without}


def _records(lines: bytes, row: int) -> JsonRecords | None:
    """Decode all lines at once; ``None`` if some line has to be looked at."""
    split = lines.split(b"\n")
    if not split[-1]:
        split.pop()
    if any(map(has_too_many_values, split)):
        return None
    try:
        values = list(map(orjson.loads, split))
    except orjson.JSONDecodeError:
        return None
    if set(map(type, values)) != {dict} or not repeat_no_names(lines, values):
        return None
    return JsonRecords(values, row, len(lines))
