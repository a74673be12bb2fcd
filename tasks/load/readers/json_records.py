"""JSON documents of any size: a list of records, or an object that contains lists of them, through a bounded buffer.

The elements of a list of the outer object (or of a list of an object in it) are the records of that section. Other
members are skipped. Several outer values, one after the other, are records too.

The scanner only finds where a value ends; :mod:`leadline.tasks.load.readers.json_values` decodes (and thereby checks)
what was cut out. Where the elements of an array look alike, the end of one is found by searching for what
stood between the first two, and the decoder confirms the guess: no proper prefix of an object is an object.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import BLOCK_BYTES, MAX_RECORD, MIB
from leadline.tasks.load.readers import Block, Item, Records
from leadline.tasks.load.readers.json_values import (
    Broken,
    decode,
    has_too_many_values,
    members_of,
    repeat_no_names,
    repeated_names,
)

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

MODELS: Final = "models"
"""List of a document that describes models."""

TITLE: Final = "name"
"""Member that is the name of the dataset: an item of its own, whose value is a text."""

ANSWERS: Final = "answers"
"""List that a document has, or a single case with its answers."""

_READ: Final = 4 * MIB
_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_SCALAR: Final = re.compile(rb"[^ \t\r\n,:{}\[\]\"]*")
_FIRST_KEY: Final = re.compile(rb'[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*"[^"\\]{0,100}"')
_FAR: Final = 64 * 1024
_MISSES: Final = 8


def read_document(source: SourceFile, faults: Faults, sections: Set[str] = frozenset()) -> Iterator[Item]:
    """Read the records of a document in the order of the file.

    Args:
        sections: Lists of the outer object whose elements are the records, as paths; empty if the file is a list of
            records, or records one after the other.
    """
    with closing(_Scanner(source)) as scanner:
        walk = _JsonWalk(scanner, sections, faults)
        try:
            if sections:
                yield from walk.members("")
                if scanner.peek():
                    raise Broken("broken JSON: the document is over, but the file goes on", scanner.offset)
            elif scanner.peek() == b"[":
                yield from walk.elements("")
                if scanner.peek():
                    raise Broken("broken JSON: the list is over, but the file goes on", scanner.offset)
            else:
                yield from walk.values()
        except Broken as error:
            faults.lose()
            where = scanner.position(error.offset)
            faults.add(walk.place, "", f"{error.message} ({where}); nothing behind it was read")
        except _TooLong:
            faults.lose()
            where = scanner.position(scanner.offset)
            faults.add(walk.place, "", f"the record at {where} is longer than {MAX_RECORD // MIB} MiB")


def is_envelope(source: SourceFile, sections: Set[str], fields: Set[str]) -> bool:
    """Return whether a JSON file is one object around lists of records, rather than a record itself.

    Args:
        sections: Lists that contain the records of documents, as paths.
        fields: Names that only a record has.
    """
    lists = sections - {ANSWERS, MODELS}
    objects = _objects_of(sections)
    with closing(_Scanner(source)) as scanner:
        try:
            if not scanner.take(b"{"):
                return False
            names = set()
            while scanner.peek() == b'"':
                name, _ = scanner.value()
                names.add(name)
                if not scanner.take(b":"):
                    return False
                if (name in lists and scanner.peek() == b"[") or (name in objects and scanner.peek() == b"{"):
                    return True
                if names & fields:
                    return False
                if name == ANSWERS and MODELS in names:
                    return True
                scanner.skip()
                scanner.take(b",")
        except (Broken, _TooLong):
            return False
        return ANSWERS in names and names <= {TITLE, "description", "metadata", ANSWERS}


def _objects_of(sections: Set[str]) -> set[str]:
    """Return the members of a document that contain lists of records themselves."""
    return {path.partition(".")[0] for path in sections if "." in path}


class _JsonWalk:
    """Reads a document and keeps the place of the record that is being read."""

    def __init__(self, scanner: _Scanner, sections: Set[str], faults: Faults) -> None:
        self._faults = faults
        self.scanner = scanner
        self.sections = sections
        self.objects = _objects_of(sections)
        self.place: Place | None = None

    def values(self) -> Iterator[Item]:
        """Yield the values that follow each other until the end of the file."""
        row = 0
        while self.scanner.peek():
            row += 1
            self.place = Place(row)
            value, size = self.scanner.value()
            self._faults.repeats(self.place, self.scanner.repeated)
            yield Item("", row, value, size)

    def elements(self, section: str) -> Iterator[Item]:
        """Yield the elements of the list that comes next."""
        scanner = self.scanner
        scanner.begin_list()
        scanner.take(b"[")
        if scanner.take(b"]"):
            return
        row = 0
        while True:
            row += 1
            self.place = Place(row, f"{section}[]" if section else "")
            value, size = scanner.value()
            item = Item(section, row, value, size)
            self._faults.repeats(item.place, scanner.repeated)
            yield item
            if scanner.take(b","):
                continue
            self._expect(b"]", "',' or ']' behind an element")
            self.place = None
            return

    def members(self, prefix: str) -> Iterator[Item]:
        """Yield the elements of the lists of the object that comes next."""
        scanner = self.scanner
        self._expect(b"{", "an object")
        if scanner.take(b"}"):
            return
        read: set[str] = set()
        while True:
            if scanner.peek() != b'"':
                raise Broken("broken JSON: expected a name", scanner.offset)
            name = str(scanner.value()[0])
            self._expect(b":", "':' behind a name")
            first = scanner.peek()
            path = prefix + name
            if path in self.sections or path in self.objects or name == TITLE:
                self._faults.repeats(None, [path] if name in read else [])
                read.add(name)
            if path in self.sections and first == b"[":
                yield from self.elements(path)
            elif path in self.objects and first == b"{":
                yield from self.members(f"{path}.")
            elif name == TITLE and first == b'"' and not prefix:
                value, size = scanner.value()
                yield Item(TITLE, 1, value, size)
            else:
                scanner.skip()
            if scanner.take(b","):
                continue
            self._expect(b"}", "',' or '}' behind a member")
            return

    def _expect(self, byte: bytes, what: str) -> None:
        if not self.scanner.take(byte):
            found = self.scanner.peek().decode("ascii", "replace")
            actual = repr(found) if found else "the end of the file"
            raise Broken(f"broken JSON: expected {what}, found {actual}", self.scanner.offset)


class _TooLong(ValueError):
    """A value is longer than a record may be."""


class _Scanner:
    """A position in a JSON file.

    Attributes:
        offset: Bytes of the file before the position.
        repeated: Names that some object of the last value has more than once.
    """

    def __init__(self, source: SourceFile) -> None:
        self._file: BinaryIO = source.open()
        self.repeated: list[str] = []
        self._start = self._file.tell()
        self._buffer = b""
        self._at = 0
        self._before = self._start
        self._ended = False
        self._separator = b""
        self._misses = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def offset(self) -> int:
        """Bytes of the file before the position."""
        return self._before + self._at

    def position(self, offset: int) -> str:
        """Return line and column of an offset, as a person counts them."""
        self._file.seek(self._start)
        line, column, left = 1, 1, offset - self._start
        while left > 0 and (data := self._file.read(min(left, MIB))):
            newlines = data.count(b"\n")
            line += newlines
            column = len(data) - data.rfind(b"\n") if newlines else column + len(data)
            left -= len(data)
        return f"line {line}, byte {column}"

    def peek(self) -> bytes:
        """Skip blanks and return the next byte, ``b""`` at the end."""
        while True:
            match = _BLANK.match(self._buffer, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._more():
                return b""

    def take(self, expected: bytes) -> bool:
        """Skip a byte if it comes next."""
        if self.peek() != expected:
            return False
        self._at += 1
        return True

    def begin_list(self) -> None:
        """Forget what the objects of the last list looked like."""
        self._separator = b""
        self._misses = 0

    def value(self) -> tuple[Any, int]:
        """Decode the value that comes next; return it and its size.

        Raises:
            Broken: It is no JSON; its offset is one of the file.
            _TooLong: It is longer than a record may be.
        """
        if self.peek() == b"{" and self._separator:
            guessed = self._guessed()
            if guessed is not None:
                return guessed
        end = self._end(keep=True)
        data = self._buffer[self._at : end]
        if len(data) > MAX_RECORD:
            raise _TooLong
        try:
            value = decode(data)
        except Broken as error:
            raise Broken(error.message, self.offset + error.offset) from None
        self.repeated = repeated_names(data, value)
        self._at = end
        if data[:1] == b"{" and self._misses < _MISSES and not self._separator:
            self._learn(data)
        return value, len(data)

    def skip(self) -> None:
        """Pass over the value that comes next without keeping it."""
        self.peek()
        self._at = self._end(keep=False)

    def _more(self) -> bool:
        """Read on, dropping what lies before the position."""
        if self._ended:
            return False
        data = self._file.read(max(_READ, len(self._buffer) - self._at))
        self._before += self._at
        self._buffer = self._buffer[self._at :] + data
        self._at = 0
        self._ended = not data
        return bool(data)

    def _learn(self, data: bytes) -> None:
        """Remember what stands between this object and the next: the brace and its first key."""
        match = _FIRST_KEY.match(self._buffer, self._at)
        first = re.match(rb'\{[ \t\r\n]*("[^"\\]{0,100}")', data)
        if match and first and match.group().endswith(first.group(1)):
            self._separator = b"}" + match.group()

    def _guessed(self) -> tuple[Any, int] | None:
        """Decode the next object if it ends where one like the last would."""
        found = self._buffer.find(self._separator, self._at, self._at + _FAR)
        if found >= 0:
            data = self._buffer[self._at : found + 1]
            try:
                value = orjson.loads(data)
            except orjson.JSONDecodeError:
                pass
            else:
                self.repeated = repeated_names(data, value)
                self._at = found + 1
                return value, len(data)
        elif len(self._buffer) - self._at < _FAR:
            return None
        self._misses += 1
        if self._misses >= _MISSES:
            self._separator = b""
        return None

    def _end(self, *, keep: bool) -> int:
        """Return where the value at the position ends in the buffer.

        Args:
            keep: Keep all of the value in the buffer, which bounds its length; otherwise what was passed is dropped.
        """
        first = self._buffer[self._at : self._at + 1]
        if first not in (b"{", b"[", b'"'):
            return self._end_of_scalar()
        depth, at = 0, self._at
        while True:
            match = _STRUCTURE.search(self._buffer, at)
            if match is None:
                at = self._refilled(len(self._buffer), keep)
                continue
            at = match.end()
            byte = match.group()
            if byte == b'"':
                at = self._end_of_string(at, keep)
            elif byte in b"{[":
                depth += 1
            else:
                depth -= 1
            if depth <= 0:
                return at

    def _end_of_string(self, at: int, keep: bool) -> int:
        """Return where the string ends whose text begins at ``at``."""
        while True:
            quote = self._buffer.find(b'"', at)
            if quote < 0:
                # A quote that comes next may be escaped by backslashes already read: stay before them.
                tail = len(self._buffer) - len(self._buffer.rstrip(b"\\")) if self._buffer.endswith(b"\\") else 0
                at = self._refilled(max(at, len(self._buffer) - tail), keep)
                continue
            slashes = quote
            while slashes > at and self._buffer[slashes - 1] == 0x5C:
                slashes -= 1
            at = quote + 1
            if (quote - slashes) % 2 == 0:
                return at

    def _end_of_scalar(self) -> int:
        while True:
            match = _SCALAR.match(self._buffer, self._at)
            end = match.end() if match else self._at
            if end < len(self._buffer) or not self._more():
                if end == self._at:
                    found = self._buffer[end : end + 1].decode("ascii", "replace")
                    actual = repr(found) if found else "the end of the file"
                    raise Broken(f"broken JSON: expected a value, found {actual}", self.offset)
                return end

    def _refilled(self, at: int, keep: bool) -> int:
        """Read on; return where ``at`` lies in the buffer then."""
        if keep and len(self._buffer) - self._at > MAX_RECORD:
            raise _TooLong
        if not keep:
            self._at = at
        moved = self._at
        begun = self.offset
        if not self._more():
            raise Broken("broken JSON: the file ends within a value", begun)
        return at - moved


def read_lines(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read whole lines block by block; a line that is longer than a record may be is the last one that is read."""
    with source.open() as file:
        row, rest = 0, b""
        while data := file.read(BLOCK_BYTES) or rest:
            at_end = data is rest
            data = data if at_end else rest + data
            first = data.find(b"\n") + 1 or len(data)
            if first > MAX_RECORD:
                faults.lose()
                limit = f"{MAX_RECORD // MIB} MiB"
                faults.add(Place(row + 1), "", f"the line is longer than {limit}; nothing behind it was read")
                return
            end = len(data) if at_end else data.rfind(b"\n") + 1
            lines, rest = data[:end], b"" if at_end else data[end:]
            if lines:
                yield Block(partial(_items, lines, row, faults), partial(_records, lines, row))
                row += lines.count(b"\n")
            if at_end:
                return


def _items(lines: bytes, row: int, faults: Faults) -> Iterator[Item]:
    """Read one record a line; a broken line is noted, and reading goes on behind it."""
    for line in io.BytesIO(lines):
        row += 1
        if line.isspace():
            continue
        try:
            value = decode(line)
        except Broken as error:
            faults.lose(line)
            faults.add(Place(row), "", f"{error.message} (byte {error.offset + 1} of the line)")
        else:
            faults.repeats(Place(row), repeated_names(line, value))
            yield Item("", row, value, len(line))


class JsonRecords:
    """Objects that were decoded from lines without a blank one among them.

    Args:
        row: Number of lines before them.
    """

    def __init__(self, values: list[dict[str, Any]], row: int, size: int) -> None:
        self._values = values
        self.rows = range(row + 1, row + 1 + len(values))
        self.size = size
        self.rounded: frozenset[str] = frozenset()

    def namings(self) -> Iterable[Mapping[str, object]]:
        """Return records that together have all names, in the order in which these first occur."""
        names: set[str] = set()
        for value in self._values:
            if not names.issuperset(value):
                names.update(value)
                yield value

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return members_of(self._values, name)

    def others(self, without: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each record that are not absent, but for those of some columns."""
        for value in self._values:
            yield {name: its for name, its in value.items() if its is not None and name not in without}


def _records(lines: bytes, row: int) -> Iterator[Records]:
    """Parse all lines at once, and decode them if that is of no use; nothing comes if some line has to be looked at."""
    from leadline.tasks.load.readers.tables import rows_of_lines  # Arrow's parser, as columnwise.py

    table = rows_of_lines(lines, row)
    if table is not None:
        yield table
    split = lines.split(b"\n")
    if not split[-1]:
        split.pop()
    if has_too_many_values(lines) and any(map(has_too_many_values, split)):
        return
    with suppress(orjson.JSONDecodeError):
        values = list(map(orjson.loads, split))
        if set(map(type, values)) == {dict} and repeat_no_names(lines, values):
            yield JsonRecords(values, row, len(lines))
