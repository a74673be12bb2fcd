"""CSV: a header and rows of texts, separated by comma, semicolon, tab or bar.

An empty cell is absent. A quoted empty cell (``""``) is the empty text, as PostgreSQL has it.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from tasks.load.faults import Faults, Place
from tasks.load.limits import MAX_CSV_ROW, MIB
from tasks.load.readers import Item

if TYPE_CHECKING:
    from tasks.load.source import Source

DELIMITERS: Final = ",;\t|"
_SLICE: Final = 4096
_MAX_COLUMNS: Final = 10_000


def header(head: bytes) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter that splits the header into the most of them."""
    text = head.decode("utf-8", "replace")
    best: list[str] = []
    chosen = ","
    for delimiter in DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        if len(names) > len(best):
            best, chosen = names, delimiter
    return [name.strip() for name in best], chosen


def read_csv(source: Source, faults: Faults) -> Iterator[Item]:
    """Read one record a row; rows with too few or too many cells are noted, and reading goes on behind them."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    names, delimiter = header(source.head)
    quotes = _count_quotes(source, faults)
    if quotes is None or not _are_names(names, faults):
        return
    ragged: dict[int, str] = {}

    def on_ragged(row: Any) -> str:
        ragged[row.number] = f"the row has {row.actual_columns} cells, the header has {row.expected_columns}"
        return "skip"

    slots = [str(index) for index in range(len(names))]
    try:
        with source.open() as file:
            batches = arrow.open_csv(
                file,
                read_options=arrow.ReadOptions(
                    use_threads=False, block_size=MAX_CSV_ROW, column_names=slots, skip_rows_after_names=1
                ),
                parse_options=arrow.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_ragged
                ),
                convert_options=arrow.ConvertOptions(
                    column_types=dict.fromkeys(slots, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            last = yield from _items(batches, names, ragged)
        if quotes % 2 and last is not None and _is_open(source, last):
            faults.unreadable = True
            faults.add(
                last.place, names[-1], "a quote is opened here and never closed, so the rest of the file is in it"
            )
    except pa.ArrowInvalid as error:
        faults.unreadable = True
        said = str(error)
        if "straddling" in said:
            said = f"a row is longer than {MAX_CSV_ROW // MIB} MiB; a quote may be left open before it"
        faults.add(None, "", said)
    for number, message in sorted(ragged.items()):
        faults.unreadable = True
        faults.add(Place(number - 1), "", f"{message}; a quote may be left open")


def _items(batches: Any, names: list[str], ragged: dict[int, str]) -> Generator[Item, None, Item | None]:
    """Yield the rows; return the last one."""
    row = 0
    item = None
    for batch in batches:
        size = batch.nbytes // max(1, batch.num_rows)
        for start in range(0, batch.num_rows, _SLICE):
            columns = [column.to_pylist() for column in batch.slice(start, _SLICE).columns]
            for cells in zip(*columns, strict=True):
                row += 1
                while row + 1 in ragged:
                    row += 1
                item = Item("", row, dict(zip(names, cells, strict=True)), size)
                yield item
    return item


def _is_open(source: Source, last: Item) -> bool:
    """Return whether the file ends within the quotes of its last cell, which Arrow's reader does not mind."""
    cell = next(reversed(last.value.values()), None)
    if cell is None:
        return False
    raw = b'"' + cell.replace('"', '""').encode()
    with source.path.open("rb") as file:
        file.seek(max(0, source.size - len(raw) - 1))
        tail = file.read()
    return tail.endswith(raw) and tail[:1] in (b"\n", *(delimiter.encode() for delimiter in DELIMITERS))


def _are_names(names: list[str], faults: Faults) -> bool:
    if len(names) > _MAX_COLUMNS:
        faults.add(None, "", f"the header has {len(names):,} columns; at most {_MAX_COLUMNS:,} are read")
        return False
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.add(None, name, "the header names this column more than once")
    return len(set(names)) == len(names)


def _count_quotes(source: Source, faults: Faults) -> int | None:
    """Return how many quotes the file has, or ``None`` (and a fault) if it is no UTF-8."""
    quotes = 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, before, length = 1, 0, 0
    with source.open() as file:
        start = file.tell()
        while True:
            data = file.read(MIB)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                line += data[: max(0, error.start - pending)].count(b"\n")
                where = f"line {line}, byte {start + before - pending + error.start + 1} of the file"
                value = error.object[error.start]
                faults.add(None, "", f"byte 0x{value:02x} is not UTF-8 ({where}); save the file as UTF-8")
                return None
            if not data:
                return quotes
            quotes += data.count(b'"')
            newline = data.rfind(b"\n")
            length = length + len(data) if newline < 0 else len(data) - newline - 1
            if length > MAX_CSV_ROW:
                faults.add(None, "", f"line {line} is longer than {MAX_CSV_ROW // MIB} MiB")
                return None
            line += data.count(b"\n")
            before += len(data)
