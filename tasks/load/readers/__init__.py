"""Containers: records are read from a file, one module for each container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leadline.tasks.load.faults import Faults
from leadline.tasks.load.readers.item import Block, Container, Item, Layout

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile


def read_items(source: SourceFile, layout: Layout, faults: Faults) -> Iterator[Item]:
    """Read the records of a file in order, one at a time; what cannot be read is noted as a fault.

    Args:
        layout: Where its records are.
        faults: Where to note what cannot be read.
    """
    for block in read_blocks(source, layout, faults):
        yield from block.items()


def read_blocks(source: SourceFile, layout: Layout, faults: Faults) -> Iterator[Block]:
    """Read the records of a file in order, many at a time; what cannot be read is noted as a fault.

    Args:
        layout: Where its records are.
        faults: Where to note what cannot be read.
    """
    container = layout.container
    if container is Container.JSON:
        from leadline.tasks.load.readers.json_document import read_document

        return iter([Block(lambda: read_document(source, faults, layout.sections))])
    if container is Container.JSON_LINES:
        from leadline.tasks.load.readers.json_lines import read_lines

        return read_lines(source, faults)
    if container is Container.CSV:
        from leadline.tasks.load.readers.csv_table import read_csv

        return read_csv(source, faults)
    if container is Container.INSPECT_ARCHIVE:
        from leadline.tasks.load.readers.inspect_archive import read_archive

        return read_archive(source, faults)
    from leadline.tasks.load.readers.parquet import read_parquet

    return read_parquet(source, faults)
