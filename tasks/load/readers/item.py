"""The values that readers share: a record with its place, and where the records of a file are."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from leadline.tasks.load.faults import Place


class Container(StrEnum):
    """The packing of records in a file; always recognised from the file's first bytes, never from its name."""

    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Layout(NamedTuple):
    """The position of the records in a file.

    Attributes:
        container: The container.
        sections: Lists that may contain records if the file is one JSON object around lists, as paths; otherwise empty.
    """

    container: Container
    sections: frozenset[str] = frozenset()


class Item(NamedTuple):
    """One record of a file.

    Attributes:
        section: The array of a JSON document that it is an element of, as a path (``"dataset.inputs"``);
            ``""`` for the records of a plain list or table.
        row: Its 1-based position, see :class:`leadline.tasks.load.faults.Place`.
        value: Its content; an object where all is well.
        size: Its approximate size in bytes.
    """

    section: str
    row: int
    value: Any
    size: int

    @property
    def place(self) -> Place:
        """Its position in the file."""
        return Place(self.row, f"{self.section}[]." if self.section else "")
