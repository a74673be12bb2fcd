"""CSV: a header and rows of texts, separated by comma, semicolon, tab or bar.

An empty cell is absent. A quoted empty cell (``""``) is the empty text, as PostgreSQL has it.
"""

from __future__ import annotations

import codecs
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv as arrow

from leadline.evaluators.ground import count
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import BLOCK_BYTES, MAX_CSV_ROW, MIB
from leadline.tasks.load.readers import Block, Item
from leadline.tasks.load.readers.tables import TableRecords
from leadline.tasks.load.source import DELIMITERS, SourceFile, csv_header, separator_line

_SLICE: Final = 4096
_REPLACED: Final = "\ufffd"
_MAX_COLUMNS: Final = 10_000
_BYTES: Final = "latin-1"
"""How a file that is not UTF-8 is read: every byte is a character, and so no row stops the reader."""
PARSED_BYTES: Final = 2 * MIB
"""Bytes that are parsed together; a file that this is too little for is read again, in blocks of the longest row."""


def read_csv(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read a row after the other; rows with too few or too many cells are noted, and reading goes on behind them."""
    names, delimiter = csv_header(source.head)
    quotes, is_utf8 = _look_through(source, faults)
    if faults or _is_broken(names, source.head, faults) or not _are_names(names, faults):
        return
    ragged: dict[int, str] = {}

    def on_ragged(row: Any) -> str:
        if row.number not in ragged:
            cells, wanted = count(row.actual_columns, "cell"), row.expected_columns
            ragged[row.number] = f"the row has {cells}, the header has {wanted}"
            text = (row.text or "").replace('""', '"')
            faults.lose(text if is_utf8 else text.encode(_BYTES))
        return "skip"

    before = 0
    last: tuple[int, Any] | None = None
    try:
        for batch in _batches(source, delimiter, len(names), on_ragged, is_utf8=is_utf8):
            rows = _rows(before, batch.num_rows, ragged)
            step = max(1, batch.num_rows * BLOCK_BYTES // max(1, batch.nbytes))
            for first in range(0, batch.num_rows, step):
                part, its = batch.slice(first, step), rows[first : first + step]
                items = partial(_items, part, names, its, faults, is_utf8=is_utf8)
                yield Block(items, partial(_table, part, names, its)) if is_utf8 else Block(items)
            if rows:
                before, last = rows[-1], (rows[-1], batch.column(len(names) - 1)[-1].as_py())
        if quotes % 2 and last is not None and _is_open(source, last[1], "utf-8" if is_utf8 else _BYTES):
            faults.lose()
            faults.add(
                Place(last[0]), names[-1], "a quote is opened here and never closed, so the rest of the file is in it"
            )
    except pa.ArrowInvalid as error:
        faults.lose()
        message = str(error)
        if "straddling" in message:
            message = f"a row is longer than {MAX_CSV_ROW // MIB} MiB; a quote may be left open before it"
        faults.add(None, "", message)
    for number, message in sorted(ragged.items()):
        faults.add(Place(number - 1), "", f"{message}; a quote may be left open")


def _batches(
    source: SourceFile, delimiter: str, columns: int, on_ragged: Callable[[Any], str], *, is_utf8: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows below the header, in small blocks as far as these hold a row.

    Args:
        columns: Their number; they are named by their places.
        on_ragged: Is told of a row with too few or too many cells, of some rows twice, and says what becomes of it.

    Raises:
        ArrowInvalid: The file cannot be read on from here.
    """
    slots = [str(place) for place in range(columns)]
    encoding = "utf8" if is_utf8 else _BYTES
    parsing = arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_ragged)
    converting = arrow.ConvertOptions(
        column_types=dict.fromkeys(slots, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    yielded = 0
    for size in (PARSED_BYTES, MAX_CSV_ROW):
        reading = arrow.ReadOptions(
            use_threads=False, block_size=size, column_names=slots, skip_rows_after_names=1, encoding=encoding
        )
        again = yielded
        try:
            with source.open() as file:
                file.read(len(separator_line(source.head)))
                for batch in arrow.open_csv(file, reading, parsing, converting):
                    new = batch.slice(min(again, batch.num_rows))
                    again -= batch.num_rows - new.num_rows
                    if new.num_rows:
                        yield new
                        yielded += new.num_rows
            return
        except pa.ArrowInvalid:
            if size == MAX_CSV_ROW:
                raise


def _rows(before: int, count: int, ragged: Collection[int]) -> Sequence[int]:
    """Return the numbers of some rows, those of ragged ones left out.

    Args:
        before: Number of the row before them.
        ragged: Numbers of ragged rows, counted with the header.
    """
    if not ragged:
        return range(before + 1, before + 1 + count)
    numbers = (row for row in itertools.count(before + 1) if row + 1 not in ragged)
    return list(itertools.islice(numbers, count))


def _items(batch: Any, names: list[str], rows: Sequence[int], faults: Faults, *, is_utf8: bool) -> Iterator[Item]:
    """Yield the rows of a batch. In a file that is not UTF-8, rows that cannot be read are noted instead."""
    size = batch.nbytes // max(1, batch.num_rows)
    for start in range(0, batch.num_rows, _SLICE):
        columns = [column.to_pylist() for column in batch.slice(start, _SLICE).columns]
        for row, cells in zip(rows[start : start + _SLICE], zip(*columns, strict=True), strict=True):
            item = Item("", row, dict(zip(names, cells, strict=True)), size)
            if is_utf8 or _is_decoded(item, faults):
                yield item


def _table(batch: Any, names: list[str], rows: Sequence[int]) -> Iterator[TableRecords]:
    yield TableRecords(batch, names, rows)


def _is_decoded(item: Item, faults: Faults) -> bool:
    """Decode the cells of a row, whose characters are bytes; note those that are no UTF-8; return whether all are."""
    raw: dict[str, bytes] = {name: cell.encode(_BYTES) for name, cell in item.value.items() if cell is not None}
    cells: dict[str, str | None] = item.value
    fine = True
    for name, cell in raw.items():
        try:
            cells[name] = cell.decode()
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} of the cell"
            faults.add(
                item.place, name, f"byte 0x{cell[error.start]:02x} is not UTF-8 ({where}); save the file as UTF-8"
            )
            cells[name] = cell.decode("utf-8", "surrogateescape")
            fine = False
    if not fine:
        faults.lose(b"\n".join(raw.values()))
    return fine


def _is_open(source: SourceFile, cell: str | None, encoding: str) -> bool:
    """Return whether the file ends within the quotes of its last cell, which Arrow's reader does not mind.

    Args:
        cell: Its last cell.
        encoding: How the cell was decoded.
    """
    if cell is None:
        return False
    raw = b'"' + cell.encode(encoding).replace(b'"', b'""')
    with source.open() as file:
        file.seek(max(0, source.size - len(raw) - 1))
        tail = file.read()
    return tail.endswith(raw) and tail[:1] in (b"\n", *(delimiter.encode() for delimiter in DELIMITERS))


def _are_names(names: list[str], faults: Faults) -> bool:
    if not names:
        faults.add(None, "", "the first line is blank; the names of the columns belong there")
        return False
    if len(names) > _MAX_COLUMNS:
        faults.add(None, "", f"the header has {len(names):,} columns; at most {_MAX_COLUMNS:,} are read")
        return False
    for name in sorted(name for name, times in Counter(names).items() if times > 1):
        faults.add(None, name, "the header names this column more than once")
    return len(set(names)) == len(names)


def _look_through(source: SourceFile, faults: Faults) -> tuple[int, bool]:
    """Return how many quotes the file has and whether it is UTF-8; what makes it unreadable is noted."""
    quotes = 0
    is_utf8 = True
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = length = 0
    with source.open() as file:
        while True:
            data = file.read(MIB)
            try:
                if is_utf8:
                    decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                is_utf8 = False
            if not data:
                break
            quotes += data.count(b'"')
            newline = data.rfind(b"\n")
            length = length + len(data) if newline < 0 else len(data) - newline - 1
            if length > MAX_CSV_ROW:
                faults.add(None, "", f"line {_line_at(source, before)} is longer than {MAX_CSV_ROW // MIB} MiB")
                break
            before += len(data)
    return quotes, is_utf8


def _line_at(source: SourceFile, size: int) -> int:
    """Return the number of the line in which a file's first bytes end."""
    with source.open() as file:
        return 1 + sum(file.read(MIB).count(b"\n") for _ in range(0, size, MIB))


def _is_broken(names: list[str], head: bytes, faults: Faults) -> bool:
    """Note a header that is no UTF-8, so that what stands below it has no names."""
    if not any(_REPLACED in name for name in names):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        before = head[: error.start]
        line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        where = f"line {line}, byte {byte}"
        faults.add(None, "", f"byte 0x{head[error.start]:02x} is not UTF-8 ({where}); save the file as UTF-8")
        return True
    return False
