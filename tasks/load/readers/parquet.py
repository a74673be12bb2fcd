"""Parquet: a table with types, read by a process of its own in batches that are bounded by what they decode to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, finalize

import pyarrow as pa

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MAX_RECORD, MAX_ROWS, MIB
from leadline.tasks.load.readers import Block, Item
from leadline.tasks.load.readers._parquet_process import STOPPED
from leadline.tasks.load.readers.tables import TableRecords, Unclear, values_of

if TYPE_CHECKING:
    from leadline.tasks.load.source import OpenFile, SourceFile

_PROGRAM: Final = Path(__file__).with_name("_parquet_process.py")
_BATCH_BYTES: Final = 32 * MIB


class _ReadingProcess:
    """A process that reads a file, from its start; it ends with the last reference to this.

    Attributes:
        process: Its handle, with the exit code.
        sent: What it sends.
        errors: Its errors: a pipe that nobody reads meanwhile could fill.
        close: Ends it, if it still runs.
    """

    def __init__(self, source: SourceFile) -> None:
        limits = (MAX_ROWS, max(FREE_EXPANSION, MAX_EXPANSION * source.size), MAX_RECORD, _BATCH_BYTES)
        command = [sys.executable, "-P", str(_PROGRAM), "/dev/stdin", *map(str, (source.size, *limits))]
        self.errors = TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=_file(source).number, stdout=subprocess.PIPE, stderr=self.errors
        )
        assert isinstance(self.process.stdout, BufferedReader)  # noqa: S101 - for the type checker
        self.sent = self.process.stdout
        self.close = finalize(self, _end, self.process, self.errors)


def _file(source: SourceFile) -> OpenFile:
    assert source.opened is not None  # noqa: S101 - for the type checker: a folder is no table
    return source.opened


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    with process, errors:
        pass


_begun: Final[WeakKeyDictionary[OpenFile, _ReadingProcess]] = WeakKeyDictionary()
"""Files of which only the columns were asked for: the process goes on to the first rows meanwhile."""


def column_names(source: SourceFile) -> list[str]:
    """Return the names of the table's columns; none if the file is broken."""
    reading = _ReadingProcess(source)
    try:
        names = list(pa.ipc.open_stream(reading.sent).read_all().schema.names)
    except (pa.ArrowException, OSError):
        return []
    _begun[_file(source)] = reading
    return names


def read_parquet(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read rows in batches; a damaged file is noted, and what was read before the damage is kept."""
    reading = _begun.pop(_file(source), None) or _ReadingProcess(source)
    row, ended = 0, ""
    try:
        for batch in _sent(reading.sent):
            rows = range(row + 1, row + 1 + batch.num_rows)
            yield Block(partial(_items, batch, rows, faults), partial(_table, batch, rows))
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        ended = str(error).splitlines()[0]
    reading.sent.close()  # it ends where it still has something to say
    code = reading.process.wait()
    reading.errors.seek(0)
    why = reading.errors.read().rpartition(b"\n")[2]
    reading.close()
    if code == STOPPED:
        _note(json.loads(why), faults)
    elif code or ended:
        reason = f"the process that reads it was ended by signal {-code}" if code < 0 else ended
        faults.lose()
        faults.add(None, "", f"the Parquet file is damaged or encrypted: {reason or 'it cannot be read'}")


def _note(said: dict[str, Any], faults: Faults) -> None:
    if said["lost"]:
        faults.lose()
    if said["row"] is None:
        faults.add(None, "", said["message"])
    else:
        faults.stop(Place(said["row"]), "", said["message"])


def _sent(out: BufferedReader) -> Iterator[Any]:
    """Yield the batches that it sends: each row group is a stream; one of the columns alone may be before them."""
    while out.peek(1):
        yield from pa.ipc.open_stream(out)


def _items(batch: Any, rows: range, faults: Faults) -> Iterator[Item]:
    names = batch.schema.names
    columns = []
    for name, column in zip(names, batch.columns, strict=True):
        try:
            columns.append(values_of(column))
        except Unclear as error:
            faults.lose()
            where = f"rows {rows[0]:,} to {rows[-1]:,}"
            faults.add(None, name, f"{where} cannot be read, the Parquet file is damaged: {error}")
            return
    for row, cells in zip(rows, zip(*columns, strict=True), strict=True):
        record = dict(zip(names, cells, strict=True))
        size = sum(len(value) for value in cells if type(value) is str)
        if size > MAX_RECORD:
            faults.lose()
            faults.stop(Place(row), "", f"the row is longer than {MAX_RECORD // MIB} MiB")
        yield Item("", row, record, size)


def _table(batch: Any, rows: range) -> Iterator[TableRecords]:
    """Yield a batch to be read by columns, unless some row may be too long, or a text no UTF-8."""
    with suppress(pa.ArrowInvalid):
        batch.validate(full=True)
        if batch.nbytes <= MAX_RECORD:
            yield TableRecords(batch, batch.schema.names, rows)
