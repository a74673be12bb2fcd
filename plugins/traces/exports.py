"""Files that tools for traces export, read as spans: each tool a module that knows its records and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from leadline.evaluators.ground import DatasetError
from leadline.plugins.traces import flat, langfuse, langsmith, mlflow
from leadline.plugins.traces.content import listed
from leadline.plugins.traces.counts import TraceCounts
from leadline.plugins.traces.otlp import SECTIONS
from leadline.plugins.traces.span import TraceSpan
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile


class Reader(Protocol):
    """A module that reads the records of one tool."""

    def recognises(self, record: Mapping[str, Any]) -> bool:
        """Say whether a record is one of this tool."""

    def spans_of(self, record: Mapping[str, Any]) -> Iterator[TraceSpan]:
        """Yield the spans in a record."""


READERS: Final[tuple[Reader, ...]] = (langfuse, langsmith, mlflow, flat)

_PAGES: Final = ("data", "traces", "runs", "spans", "observations")
"""Lists of records in what a service returns."""


def exported(path: Path, counts: TraceCounts) -> Iterator[TraceSpan] | None:
    """Return the spans of a file, ``None`` where its first record is of none of these tools."""
    try:
        source = SourceFile.at(path)
        if any(f'"{name}"'.encode() in source.head for name in SECTIONS):
            return None
        layout, faults = layout_of(source), Faults(path.name)
        records = (record for item in read_items(source, layout, faults) for record in _records(item.value))
        first = next(records, None)
    except DatasetError:
        return None
    reader = None if first is None else reader_of(first)
    return None if first is None or reader is None else _spans(chain([first], records), reader, faults, counts)


def reader_of(record: Any) -> Reader | None:
    """Return the reader of a record, ``None`` where no tool is known to write such records."""
    return next((one for one in READERS if isinstance(record, dict) and one.recognises(record)), None)


def _records(value: Any) -> Iterator[Any]:
    """Yield a record, or those on a page of a service."""
    page = None
    if isinstance(value, dict) and reader_of(value) is None:
        page = next((listed(value[name]) for name in _PAGES if listed(value.get(name))), None)
    yield from [value] if page is None else page


def _spans(records: Iterable[Any], reader: Reader, faults: Faults, counts: TraceCounts) -> Iterator[TraceSpan]:
    try:
        for record in records:
            its = reader if isinstance(record, dict) and reader.recognises(record) else reader_of(record)
            if its is None:
                counts.fault("a record is of no known form")
                continue
            for span in its.spans_of(record):
                counts.spans += 1
                yield span
        if faults:
            faults.refuse()
    except DatasetError as error:
        for fault in error.faults:
            counts.fault(fault.message)
