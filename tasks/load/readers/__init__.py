"""Containers: records are read from a file one at a time, one module for each container."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from leadline.tasks.load.faults import Faults, Place

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source


class Container(StrEnum):
    """The packing of records in a file; always recognised from the file's first bytes, never from its name."""

    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Layout(NamedTuple):
    """Where the records of a file are.

    Attributes:
        container: The container.
        sections: Lists that may hold records if the file is one JSON object around lists, as paths; otherwise empty.
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
        """Where it stands."""
        return Place(self.row, f"{self.section}[]." if self.section else "")


def read_items(source: Source, layout: Layout, faults: Faults) -> Iterator[Item]:
    """Read the records of a file in order; what cannot be read is noted as a fault.

    Args:
        source: The file.
        layout: Where its records are.
        faults: Where to note what cannot be read.
    """
    container = layout.container
    if container is Container.JSON:
        from leadline.tasks.load.readers.json_document import read_document

        return read_document(source, faults, layout.sections)
    if container is Container.JSON_LINES:
        from leadline.tasks.load.readers.json_lines import read_lines

        return read_lines(source, faults)
    if container is Container.CSV:
        from leadline.tasks.load.readers.csv_table import read_csv

        return read_csv(source, faults)
    from leadline.tasks.load.readers.parquet import read_parquet

    return read_parquet(source, faults)
