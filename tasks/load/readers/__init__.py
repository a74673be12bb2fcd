"""Containers: a module for each reads its records; here is what they share, a record with its place and the layouts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leadline.tasks.load.faults import Place

if TYPE_CHECKING:
    from leadline.tasks.load.readers.tables import Column


class Container(StrEnum):
    """The packing of records in a file; always recognised from the file's first bytes, never from its name."""

    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    INSPECT_ARCHIVE = "eval"
    FILES = "files"


class Layout(NamedTuple):
    """The position of the records in a file.

    Attributes:
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


class Records(Protocol):
    """Records that follow each other in a file, to be read column by column."""

    @property
    def rows(self) -> Sequence[int]:
        """Their rows, see :class:`leadline.tasks.load.faults.Place`."""

    @property
    def size(self) -> int:
        """Their approximate size in bytes."""

    @property
    def rounded(self) -> frozenset[str]:
        """Columns of numbers in which 1 and 1.0 are no longer told apart."""

    def namings(self) -> Iterable[Mapping[str, object]]:
        """Return records that together have all names, in the order in which these first occur."""

    def column(self, name: str) -> Column:
        """Return the values of a column."""

    def others(self, without: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each record that are not absent, but for those of some columns."""


def _no_records() -> Iterator[Records]:
    return iter(())


class Block(NamedTuple):
    """Records that follow each other in a file, to be read in one of two ways before the next block is asked for.

    Attributes:
        items: Reads them one at a time and notes what cannot be read.
        records: Reads them column by column, in one way after another, the fastest first, until one is of use. None is
            where some cannot be read, or only with care.
    """

    items: Callable[[], Iterator[Item]]
    records: Callable[[], Iterator[Records]] = _no_records
