"""Conversations from files of traces, in bounded memory: spans wait on disk until all of a conversation are there."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from leadline.evaluators.ground import DatasetError, Fault
from leadline.plugins.traces import flat, langfuse, langsmith, mlflow
from leadline.plugins.traces.assemble import assemble
from leadline.plugins.traces.content import listed
from leadline.plugins.traces.dialect import DIALECTS, Dialect
from leadline.plugins.traces.otlp import SECTIONS, Raw, RawEvent, RawSpan, read_file
from leadline.plugins.traces.sessions import LOOKED_AT, is_of_session, sessions
from leadline.plugins.traces.span import IDS_ONLY, Annotated, TraceCounts, TraceSpan, Usage
from leadline.plugins.traces.translate import Translator
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.corpus import DocumentTexts
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MIB
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile

_ENDINGS: Final = frozenset(
    {".json", ".jsonl", ".ndjson", ".pb", ".binpb", ".bin", ".proto", ".parquet", ".csv", ".gz"}
)
_PACKED: Final = 16
"""Spans that are packed at once; each may have megabytes."""
_WAITING: Final = 16 * MIB
"""Spans that are written together."""
_MOST_SPANS: Final = 100_000
_MOST_BYTES: Final = 256 * MIB
"""Spans and bytes of one conversation that are put together."""
_PAGES: Final = ("data", "traces", "runs", "spans", "observations")
"""Lists of records in what a service returns."""


class Reader(Protocol):
    """A module that reads the records of a tool that exports traces."""

    def recognises(self, record: Mapping[str, Any]) -> bool:
        """Say whether a record is one of this tool."""

    def spans_of(self, record: Mapping[str, Any]) -> Iterator[TraceSpan]:
        """Yield the spans in a record."""


READERS: Final[tuple[Reader, ...]] = (langfuse, langsmith, mlflow, flat)


def conversations(
    paths: Iterable[str | os.PathLike[str]],
    *,
    counts: TraceCounts | None = None,
    dialects: Sequence[Dialect] = DIALECTS,
    corpus: DocumentTexts | None = None,
) -> Iterator[Conversation]:
    """Yield the conversations in files and folders of traces, in the order in which they begin there.

    Spans belong together by the conversation that they or others of their trace name, else by their trace. What could
    not be used is counted; a damaged line or document costs what is in it.

    Args:
        counts: Is filled while conversations are taken, and complete after the last one.
        dialects: Tables of names, in the order in which they are asked.
        corpus: Has the texts of documents that were recorded by their ids.

    Raises:
        DatasetError: A file cannot be opened.
    """
    counts = TraceCounts() if counts is None else counts
    translator = Translator(dialects, counts)
    with (
        tempfile.TemporaryDirectory(prefix="leadline-traces-") as folder,
        closing(_Store(Path(folder), translator)) as store,
    ):
        of_agents: list[Path] = []
        for path in paths:
            for file in _files(Path(path)):
                try:
                    file = _plain(file, Path(folder), counts)
                    if is_of_session(_head(file)):
                        of_agents.append(file)
                        continue
                    store.add_all(exported(file, counts) or read_file(file, counts))
                except OSError as error:
                    raise DatasetError([Fault(str(file), None, "", f"the file cannot be read: {error}")]) from None
        for raws in store.grouped(counts):
            if (found := _conversation(raws, translator, corpus)) is not None:
                yield found
        yield from sessions(of_agents, counts)


def _files(path: Path) -> list[Path]:
    """Return a file, or those in a folder that may have traces."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(LOOKED_AT)


def _plain(file: Path, folder: Path, counts: TraceCounts) -> Path:
    """Return a file, or what one that is packed by gzip holds, as far as it can be read."""
    with file.open("rb") as packed:
        if packed.read(2) != b"\x1f\x8b":
            return file
    place = Path(tempfile.mkdtemp(dir=folder)) / file.stem
    left = max(FREE_EXPANSION, file.stat().st_size * MAX_EXPANSION)
    with gzip.open(file) as packed, place.open("wb") as plain:
        try:
            while left > 0 and (data := packed.read1(MIB)):
                left -= plain.write(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            counts.fault(f"a packed file is broken ({error})")
    if left <= 0:
        counts.fault(f"a packed file holds more than {MAX_EXPANSION:,} times its size")
    return place


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
    page: list[Any] = []
    if isinstance(value, dict) and reader_of(value) is None:
        page = [each for name in _PAGES for each in listed(value.get(name))]
    yield from page or [value]


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


def _conversation(
    raws: Sequence[Raw | TraceSpan], translator: Translator, corpus: DocumentTexts | None
) -> Conversation | None:
    events: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}
    for raw in raws:
        if isinstance(raw, RawEvent):
            events.setdefault((raw.trace, raw.span), []).append((raw.name, raw.attributes))
    spans = [
        raw if isinstance(raw, TraceSpan) else _translated(raw, events.get((raw.trace, raw.id), ()), translator)
        for raw in raws
        if not isinstance(raw, RawEvent)
    ]
    spans = [_with_texts(span, corpus) if span.documents else span for span in _joined(spans, translator.counts)]
    return assemble(spans, translator.counts) if spans else None


def _translated(raw: RawSpan, events: Sequence[tuple[str, dict[str, Any]]], translator: Translator) -> TraceSpan:
    if "mlflow.spanType" not in raw.attributes:
        return translator.span(raw, events)
    return mlflow.of_otlp(raw, (translator.session(raw.attributes) or (0, ""))[1])


def _with_texts(span: TraceSpan, corpus: DocumentTexts | None) -> TraceSpan:
    """Return what a retriever found, without the documents that have no text here."""
    if corpus is None:
        documents = [chunk for chunk in span.documents if chunk["content"]]
    else:
        documents = [found for chunk in span.documents if (found := corpus.with_text(chunk)) is not None]
    missing = span.missing if len(documents) < len(span.documents) or span.missing != IDS_ONLY else ""
    span.documents, span.missing = documents, missing
    return span


def _joined(spans: list[TraceSpan], counts: TraceCounts) -> list[TraceSpan]:
    """Return spans with what stands apart: spans without an id, of a trace or of one of its spans.

    A trace that nothing else is known of is a span itself, where it has a question or an answer.
    """
    apart = [span for span in spans if not span.id]
    if not apart:
        return spans
    found = {(span.trace, span.id): span for span in spans if span.id}
    roots: dict[str, tuple[str, str]] = {}
    for place, span in found.items():
        if (span.trace, span.parent) not in found:
            roots.setdefault(span.trace, place)
    for span in apart:
        if span.trace not in roots and (span.inputs or span.outputs):
            roots[span.trace] = place = (span.trace, span.trace)
            found[place] = replace(span, id=span.trace)
            continue
        root = roots.get(span.trace) or next(iter(roots.values()), ("", ""))
        place = (span.trace, span.parent) if span.parent else root
        if (home := found.get(place)) is None:
            counts.apart += 1
        else:
            said = [each for each in span.annotations if each not in home.annotations]
            metadata, session = {**span.metadata, **home.metadata}, span.session or home.session
            found[place] = replace(home, annotations=[*home.annotations, *said], metadata=metadata, session=session)
    return list(found.values())


@dataclass(slots=True)
class _Trace:
    """A trace, as far as it was read.

    Attributes:
        named: The conversation that the most telling of its spans names, with the rank of what names it.
        waiting: Spans that are packed, and not yet written.
        spans: How many these are.
        pieces: Place, size and number of spans of what is written.
    """

    named: tuple[int, str] | None = None
    waiting: list[bytes] = field(default_factory=list)
    spans: int = 0
    pieces: list[tuple[int, int, int]] = field(default_factory=list)


class _Store:
    """Raw spans, in a file by traces; of each trace some hundred bytes are in memory, which tell where."""

    def __init__(self, folder: Path, translator: Translator) -> None:
        self._file = (folder / "spans").open("w+b")
        self._translator = translator
        self._traces: dict[str, _Trace] = {}
        self._waiting: dict[str, _Trace] = {}
        self._bytes = 0
        self._end = 0

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def add_all(self, raws: Iterable[Raw | TraceSpan]) -> None:
        """Add spans and log records; those of a trace that follow each other are packed at once."""
        for trace, together in groupby(raws, attrgetter("trace")):
            while some := list(islice(together, _PACKED)):
                self._add(trace, some)

    def _add(self, trace: str, raws: Sequence[Raw | TraceSpan]) -> None:
        whole = [raw if isinstance(raw, TraceSpan) else tuple(raw) for raw in raws]
        try:
            packed = orjson.dumps(whole, option=orjson.OPT_NON_STR_KEYS, default=str)[1:-1]
        except TypeError as error:  # nested too deeply, or a number of more than 64 bits
            if len(raws) > 1:
                for raw in raws:
                    self._add(trace, [raw])
            else:
                self._translator.counts.fault(f"a span holds what JSON has no way to say ({error})")
            return
        its = self._waiting[trace] = self._traces.setdefault(trace, _Trace())
        its.waiting.append(packed)
        its.spans += len(raws)
        for raw in raws:
            if isinstance(raw, TraceSpan):
                named = (0, raw.session) if raw.session else None
            else:
                named = self._translator.session(raw.attributes)
            if named is not None and (its.named is None or named[0] < its.named[0]):
                its.named = named
        self._bytes += len(packed)
        if self._bytes >= _WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting: the spans of a trace in one piece, which is read again at once."""
        for trace in self._waiting.values():
            packed = b"[%b]" % b",".join(trace.waiting)
            self._file.write(packed)
            trace.pieces.append((self._end, len(packed), trace.spans))
            self._end += len(packed)
            trace.waiting, trace.spans = [], 0
        self._file.flush()
        self._waiting, self._bytes = {}, 0

    def grouped(self, counts: TraceCounts) -> Iterator[list[Raw | TraceSpan]]:
        """Yield the spans and log records of each conversation, those of a trace in the order of the files."""
        self.flush()
        conversations: dict[str, list[tuple[int, int, int]]] = {}
        for id_, trace in self._traces.items():
            conversations.setdefault(f"of {trace.named[1]}" if trace.named else id_, []).extend(trace.pieces)
        for pieces in conversations.values():
            _, sizes, spans = zip(*pieces, strict=True)
            if sum(sizes) > _MOST_BYTES or sum(spans) > _MOST_SPANS:
                counts.too_large += 1
            else:
                yield self._read(sorted(pieces))

    def _read(self, pieces: Sequence[tuple[int, int, int]]) -> list[Raw | TraceSpan]:
        number = self._file.fileno()
        return [_unpacked(each) for at, size, _ in pieces for each in orjson.loads(os.pread(number, size, at))]


def _unpacked(found: Any) -> Raw | TraceSpan:
    """Return a span or a log record as it was added."""
    if isinstance(found, dict):
        usage, annotations = Usage(**found.pop("usage")), [Annotated(**each) for each in found.pop("annotations")]
        return TraceSpan(**found, usage=usage, annotations=annotations)
    return RawSpan._make(found) if len(found) > len(RawEvent._fields) else RawEvent._make(found)
