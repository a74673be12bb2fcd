"""Recognises what a file is: its container by its first bytes, its format by the names of its fields."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import DatasetError, Fault
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.formats.registry import all_formats, get_format, recognised_format, unknown_format
from leadline.tasks.load.readers import read_items
from leadline.tasks.load.readers.item import Container, Layout
from leadline.tasks.load.readers.json_document import MODELS, TITLE, is_envelope
from leadline.tasks.load.readers.json_values import Broken, decode

if TYPE_CHECKING:
    from leadline.tasks.load.formats.base import DatasetFormat
    from leadline.tasks.load.source import Source

_FOREIGN: Final = {
    b"\x1f\x8b": "gzip data; unpack the file first",
    b"\x28\xb5\x2f\xfd": "Zstandard data; unpack the file first",
    b"BZh": "bzip2 data; unpack the file first",
    b"PK\x03\x04": "a ZIP archive or an office document; export it as CSV",
    b"%PDF": "a PDF",
    b"\xff\xfe": "UTF-16 text; save the file as UTF-8",
    b"\xfe\xff": "UTF-16 text; save the file as UTF-8",
}
_PEEKED: Final = 20
"""Records whose fields tell the format."""


def layout_of(source: Source) -> Layout:
    """Recognise the container and, of a JSON document, the lists that may contain records.

    Raises:
        DatasetError: The file is of another kind, such as an archive.
    """
    head = source.head.lstrip()
    if head.startswith(b"PAR1"):
        return Layout(Container.PARQUET)
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


def format_of(source: Source, layout: Layout) -> type[DatasetFormat]:
    """Recognise the format by the first records.

    Args:
        source: The file.
        layout: Where its records are.

    Raises:
        DatasetError: No format has such fields, or there are no records.
    """
    sections: set[str] = set()
    if layout.container in (Container.CSV, Container.PARQUET):
        names = set(_column_names(source, layout.container))
        broken = not names
    else:
        faults = Faults(source.name)
        items = (item for item in read_items(source, layout, faults) if item.section not in (MODELS, TITLE))
        peeked = list(islice(items, _PEEKED))
        sections = {item.section for item in peeked if item.section}
        names = {name for item in peeked if isinstance(item.value, dict) for name in item.value}
        if faults and not peeked:
            faults.refuse()  # the file was read to its end, as far as possible
        broken = bool(faults)
    found = recognised_format(names, sections)
    if found:
        return found
    if broken:
        return get_format("leadline")  # reading the file will report all that is broken
    if not names:
        raise DatasetError([Fault(source.name, None, "", "the file holds no records")], code=ErrorCode.DATA_UNREADABLE)
    raise DatasetError([Fault(source.name, None, "", unknown_format(names))], code=ErrorCode.DATA_FORMAT)


def _column_names(source: Source, container: Container) -> list[str]:
    if container is Container.CSV:
        from leadline.tasks.load.readers.csv_table import header

        return header(source.head)[0]
    from leadline.tasks.load.readers.parquet import column_names

    return column_names(source)
