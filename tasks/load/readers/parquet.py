"""Parquet: a table with types, read by a process of its own in batches that are bounded by what they decode to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MAX_RECORD, MAX_ROWS, MIB
from leadline.tasks.load.readers import Block, Item
from leadline.tasks.load.readers._parquet_process import STOPPED
from leadline.tasks.load.readers.tables import TableRecords, Unclear, values_of

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

_PROGRAM: Final = Path(__file__).with_name("_parquet_process.py")
_BATCH_BYTES: Final = 32 * MIB


def column_names(source: SourceFile) -> list[str]:
    """Return the names of the table's columns; none if the file is broken."""
    with TemporaryFile() as errors, _reader(source, errors) as (_, out):
        try:
            return list(pa.ipc.open_stream(out).schema.names)
        except (pa.ArrowException, OSError):
            return []


def read_parquet(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read rows in batches; a damaged file is noted, and what was read before the damage is kept."""
    with TemporaryFile() as errors, _reader(source, errors) as (process, out):
        row, ended = 0, ""
        try:
            for batch in _sent(out):
                rows = range(row + 1, row + 1 + batch.num_rows)
                yield Block(partial(_items, batch, rows, faults), partial(_table, batch, rows))
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            ended = str(error).splitlines()[0]
        out.close()  # it ends where it still has something to say
        process.wait()
        errors.seek(0)
        why = errors.read().rpartition(b"\n")[2]
    if process.returncode == STOPPED:
        _note(json.loads(why), faults)
    elif process.returncode or ended:
        signal = -process.returncode
        reason = f"the process that reads it was ended by signal {signal}" if signal > 0 else ended
        faults.lose()
        faults.add(None, "", f"the Parquet file is damaged or encrypted: {reason or 'it cannot be read'}")


def _note(said: dict[str, Any], faults: Faults) -> None:
    if said["lost"]:
        faults.lose()
    if said["row"] is None:
        faults.add(None, "", said["message"])
    else:
        faults.stop(Place(said["row"]), "", said["message"])


@contextmanager
def _reader(source: SourceFile, errors: IO[bytes]) -> Iterator[tuple[subprocess.Popen[bytes], BufferedReader]]:
    """Start the process that reads a file, for the length of a ``with``; yields it with what it sends.

    Args:
        errors: Takes its errors: a pipe that nobody reads meanwhile could fill.
    """
    assert source.opened is not None  # noqa: S101 - for the type checker: a folder is no table
    limits = (MAX_ROWS, max(FREE_EXPANSION, MAX_EXPANSION * source.size), MAX_RECORD, _BATCH_BYTES)
    command = [sys.executable, "-P", str(_PROGRAM), "/dev/stdin", *map(str, (source.size, *limits))]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=source.opened.number, stdout=subprocess.PIPE, stderr=errors
    ) as process:
        try:
            assert isinstance(process.stdout, BufferedReader)  # noqa: S101 - for the type checker
            yield process, process.stdout
        finally:
            process.kill()


def _sent(out: BufferedReader) -> Iterator[Any]:
    """Yield the batches that it sends: its first stream has the columns alone, then each row group has one."""
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
