"""Recognises what a file is, its container by its first bytes, its format by the names of its fields; and opens it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from json import dumps
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import DatasetError, ErrorCode, Fault
from leadline.tasks.load.columns import LABELS, ColumnNames, listed
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.formats.base import FileFormat
from leadline.tasks.load.formats.registry import all_formats, get_format, recognised_format, unknown_format
from leadline.tasks.load.label import LabelColumn
from leadline.tasks.load.readers import Block, Container, Item, Layout
from leadline.tasks.load.readers.inspect_archive import MARK as INSPECT_MARK
from leadline.tasks.load.readers.inspect_archive import SECTION as INSPECT_SECTION
from leadline.tasks.load.readers.inspect_archive import read_archive
from leadline.tasks.load.readers.json_records import MODELS, TITLE, is_envelope, read_document, read_lines
from leadline.tasks.load.readers.json_values import Broken, decode
from leadline.tasks.load.source import SourceFile, csv_header

if TYPE_CHECKING:
    from leadline.tasks.load.formats.base import DatasetFormat

_ZIP: Final = b"PK\x03\x04"
_WORKBOOK: Final = b"xl/workbook.xml"
_FIRST_MEMBER: Final = 100
"""Bytes at the beginning of an archive that have its first member's name."""

_FOREIGN: Final = {
    b"\x1f\x8b": "gzip data; unpack the file first",
    b"\x28\xb5\x2f\xfd": "Zstandard data; unpack the file first",
    b"BZh": "bzip2 data; unpack the file first",
    _ZIP: "a ZIP archive or an office document; export it as CSV",
    b"%PDF": "a PDF",
    b"\xff\xfe": "UTF-16 text; save the file as UTF-8",
    b"\xfe\xff": "UTF-16 text; save the file as UTF-8",
    b"PARE": "an encrypted Parquet file; write it again without encryption",
}
_PEEKED: Final = 20
"""Records whose fields tell the format."""


def reader_of(source: SourceFile) -> type[FileFormat] | None:
    """Return the format that reads a file or folder as a whole, ``None`` for one of records.

    Raises:
        DatasetError: It is a folder that no format takes.
    """
    kinds = (kind for kind in all_formats().values() if issubclass(kind, FileFormat))
    found = next((kind for kind in kinds if kind.reads(source)), None)
    if found is None and source.refusal:
        raise DatasetError([Fault(source.name, None, "", source.refusal)])
    return found


def layout_of(source: SourceFile) -> Layout:
    """Recognise the container and, of a JSON document, the lists that may contain records.

    Raises:
        DatasetError: The file is of another kind, such as an archive.
    """
    head = source.head.lstrip()
    if head.startswith(b"PAR1"):
        return Layout(Container.PARQUET)
    if head.startswith(_ZIP) and INSPECT_MARK in head[:_FIRST_MEMBER]:
        return Layout(Container.INSPECT_ARCHIVE, frozenset({INSPECT_SECTION}))
    if head.startswith(_ZIP) and _WORKBOOK in head:
        what = f"a workbook; save it as CSV UTF-8, or type: pip install openpyxl; python -c {_conversion(source.name)}"
        raise DatasetError([Fault(source.name, None, "", f"the file is {what}")], code=ErrorCode.DATA_UNREADABLE)
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise DatasetError([Fault(source.name, None, "", f"the file is {what}")], code=ErrorCode.DATA_UNREADABLE)
    if head.startswith(b"["):
        return Layout(Container.JSON)
    if head.startswith(b"{"):
        formats = all_formats().values()
        sections = frozenset({MODELS}.union(*(kind.sections for kind in formats)))
        fields = {"case"}.union(*({kind.question_column, kind.answer_column} for kind in formats))
        if is_envelope(source, sections, fields):
            return Layout(Container.JSON, sections)
        return Layout(Container.JSON_LINES if _is_lines(head) else Container.JSON)
    if _is_binary(source.head):
        raise DatasetError(
            [Fault(source.name, None, "", "the file is binary data of an unknown kind")], code=ErrorCode.DATA_UNREADABLE
        )
    return Layout(Container.CSV)


def _conversion(name: str) -> str:
    """Return the program that makes a workbook's first sheet a CSV file, as a shell takes it."""
    converted = f"{name.rpartition('.')[0] or name}.csv"
    return shlex.quote(f"import pandas; pandas.read_excel({dumps(name)}).to_csv({dumps(converted)}, index=False)")


def _is_binary(head: bytes) -> bool:
    """Return whether the first line is not text; a NUL byte in a later line may be part of an answer."""
    first = head.split(b"\n", 1)[0]
    return b"\0" in first or (b"\0" in head and "\ufffd" in first.decode("utf-8", "replace"))


def _is_lines(head: bytes) -> bool:
    """Return whether a text that begins with an object has an object on each line."""
    lines = list(islice((line for line in head.split(b"\n", 50) if line.strip()), 2))
    if len(lines) == 1 or lines[1].lstrip().startswith(b"{"):
        return True
    try:
        decode(lines[0])
    except Broken:
        return False
    return True


def read_items(source: SourceFile, layout: Layout, faults: Faults) -> Iterator[Item]:
    """Read the records of a file in order, one at a time; what cannot be read is noted as a fault."""
    for block in read_blocks(source, layout, faults):
        yield from block.items()


def read_blocks(source: SourceFile, layout: Layout, faults: Faults) -> Iterator[Block]:
    """Read the records of a file in order, many at a time; what cannot be read is noted as a fault."""
    container = layout.container
    if container is Container.JSON:
        return iter([Block(lambda: read_document(source, faults, layout.sections))])
    if container is Container.JSON_LINES:
        return read_lines(source, faults)
    if container is Container.CSV:
        from leadline.tasks.load.readers.csv_table import read_csv

        return read_csv(source, faults)
    if container is Container.INSPECT_ARCHIVE:
        return read_archive(source, faults)
    from leadline.tasks.load.readers.parquet import read_parquet

    return read_parquet(source, faults)


@dataclass(frozen=True, slots=True)
class Peeked:
    """The first records of a file.

    Attributes:
        columns: Names of their fields.
        sections: Lists of a document that contain them.
        faults: What of them cannot be read.
        empty: Whether there are none, as far as the file could be read.
        broken: Whether reading the file will report faults.
    """

    columns: ColumnNames
    sections: frozenset[str]
    faults: Faults
    empty: bool
    broken: bool


def peek(source: SourceFile, layout: Layout) -> Peeked:
    """Look at the header of a table, or at the first records of another file."""
    faults = Faults(source.name)
    if layout.container in (Container.CSV, Container.PARQUET):
        names = tuple(_column_names(source, layout.container))
        late = _late(_first_records(source, layout), cells=layout.container is Container.CSV, names=names)
        columns = ColumnNames(names, complete=bool(names), late=late)
        return Peeked(columns, frozenset(), faults, empty=False, broken=not names)
    items = (item for item in read_items(source, layout, faults) if item.section not in (MODELS, TITLE))
    peeked = list(islice(items, _PEEKED))
    found = dict.fromkeys(name for item in peeked if isinstance(item.value, dict) for name in item.value)
    sections = frozenset(item.section for item in peeked if item.section)
    late = _late((item.value for item in peeked), cells=False, names=tuple(found))
    return Peeked(ColumnNames(tuple(found), late=late), sections, faults, empty=not peeked, broken=bool(faults))


def _first_records(source: SourceFile, layout: Layout) -> Iterator[object]:
    """Yield the first records; what is wrong with them is told when the file is read."""
    with suppress(DatasetError):
        for item in islice(read_items(source, layout, Faults(source.name)), _PEEKED):
            yield item.value


def _late(records: Iterable[object], *, cells: bool, names: tuple[str, ...]) -> frozenset[str]:
    """Return the column ``labels`` if it can be that of people's labels by the first records."""
    if LABELS not in names:
        return frozenset()
    column = LabelColumn.of(ColumnNames(names), cells=cells, taken=False)
    holds = all(column.holds(each.get(LABELS)) for each in records if isinstance(each, dict))
    return frozenset({LABELS}) if holds else frozenset()


def format_of(source: SourceFile, peeked: Peeked) -> type[DatasetFormat]:
    """Recognise the format by the first records, those columns aside that the user mapped to a field.

    Raises:
        DatasetError: No format has such fields, or there are no records.
    """
    columns = peeked.columns
    if peeked.faults and peeked.empty:
        peeked.faults.refuse()  # the file was read to its end, as far as possible
    names = set(columns.names) - set(columns.asked)
    found = recognised_format(names, peeked.sections) or recognised_format(
        names | set(columns.asked.values()), peeked.sections
    )
    if found:
        return found
    if peeked.broken:
        return get_format("leadline")  # reading the file will report all that is broken
    if not columns.names:
        lists = sorted({section for kind in all_formats().values() for section in kind.sections})
        there = [section for section in lists if f'"{section.rpartition(".")[2]}"'.encode() in source.head]
        message = (
            f"the file holds no records; looked for them in {listed(there)}" if there else "the file holds no records"
        )
        raise DatasetError([Fault(source.name, None, "", message)], code=ErrorCode.DATA_UNREADABLE)
    raise DatasetError([Fault(source.name, None, "", unknown_format(names))], code=ErrorCode.DATA_FORMAT)


def _column_names(source: SourceFile, container: Container) -> list[str]:
    if container is Container.CSV:
        return csv_header(source.head)[0]
    from leadline.tasks.load.readers.parquet import column_names

    return column_names(source)
