"""JSON Lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_RECORD, MIB
from leadline.tasks.load.readers.item import Item
from leadline.tasks.load.readers.json_values import Broken, decode, repeated_names

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source


def read_lines(source: Source, faults: Faults) -> Iterator[Item]:
    """Read one record a line; a broken line is noted, and reading goes on behind it.

    Args:
        source: The file.
        faults: Takes the faults.
    """
    with source.open() as file:
        row = 0
        while line := file.readline(MAX_RECORD + 1):
            row += 1
            if len(line) > MAX_RECORD:
                faults.lose()
                limit = f"{MAX_RECORD // MIB} MiB"
                faults.add(Place(row), "", f"the line is longer than {limit}; nothing behind it was read")
                return
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
