"""Walks through a JSON file of any size with a bounded buffer, and cuts values out of it.

The scanner only finds where a value ends; :mod:`leadline.tasks.load.readers.json_values` decodes (and thereby checks)
what was cut out. Where the elements of an array look alike, the end of one is found by searching for what
stood between the first two, and the decoder confirms the guess: no proper prefix of an object is an object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from leadline.tasks.load.limits import MAX_RECORD, MIB
from leadline.tasks.load.readers.json_values import Broken, decode, repeated_names

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

_READ: Final = 4 * MIB
_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_SCALAR: Final = re.compile(rb"[^ \t\r\n,:{}\[\]\"]*")
_FIRST_KEY: Final = re.compile(rb'[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*"[^"\\]{0,100}"')
_FAR: Final = 64 * 1024
_MISSES: Final = 8


class TooLong(ValueError):
    """A value is longer than a record may be."""


class Scanner:
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
            TooLong: It is longer than a record may be.
        """
        if self.peek() == b"{" and self._separator:
            guessed = self._guessed()
            if guessed is not None:
                return guessed
        end = self._end(keep=True)
        data = self._buffer[self._at : end]
        if len(data) > MAX_RECORD:
            raise TooLong
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
            raise TooLong
        if not keep:
            self._at = at
        moved = self._at
        begun = self.offset
        if not self._more():
            raise Broken("broken JSON: the file ends within a value", begun)
        return at - moved
