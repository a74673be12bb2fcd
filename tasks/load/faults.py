"""The list of all faults of a dataset, so that its owner can correct them together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

from leadline.evaluators.ground import DatasetError, Fault
from leadline.tasks.load.limits import MAX_FAULTS, MAX_LOST

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")


class Place(NamedTuple):
    """A position in a file.

    Attributes:
        row: 1-based position of the record: the line of a JSON Lines file, the row of a table below its
            header, the element of an array.
        part: Part of the record, as the beginning of a path: ``""`` or, for example, ``"cases[]."``.
    """

    row: int
    part: str = ""


class Faults:
    """Collects faults; keeps the first ones and counts the rest.

    Attributes:
        file: The file as the user named it.
        unreadable: Whether some record could not be read at all.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.unreadable = False
        self._lost: list[str] | None = []
        self._lost_size = 0
        self._kept: list[Fault] = []
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def room(self) -> int:
        """Number of further faults that would be kept."""
        return MAX_FAULTS - len(self._kept)

    @property
    def lost(self) -> str | None:
        """Content of the records that could not be read; ``None`` if it is not known."""
        return None if self._lost is None else "\n".join(self._lost)

    def lose(self, content: bytes | str | None = None) -> None:
        """Note that a record could not be read, with its content, if known, so that references to it are no faults."""
        self.unreadable = True
        size = 0 if content is None else len(content)
        if content is None or self._lost is None or self._lost_size + size > MAX_LOST:
            self._lost = None
            return
        self._lost_size += size
        text = content if isinstance(content, str) else _text(content)
        self._lost.append(text)
        if "\\" in text:
            plain = _ESCAPE.sub(_unescaped, text)
            self._lost.append(plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    def repeats(self, place: Place | None, names: Iterable[str]) -> None:
        """Note names that an object has more than once."""
        for name in names:
            self.add(place, name, "the object has this name more than once")

    def add(self, place: Place | None, column: str, message: str) -> None:
        """Note one fault; without a place it is one of the file."""
        if self.room <= 0:
            self._more += 1
            return
        row = place.row if place else None
        self._kept.append(Fault(self.file, row, f"{place.part}{column}" if place else column, message))

    def count(self, more: int) -> None:
        """Note faults that are only counted."""
        self._more += more

    def stop(self, place: Place | None, column: str, message: str) -> NoReturn:
        """Note a fault after which nothing more can be read, and refuse the dataset."""
        self.add(place, column, message)
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise what was found, in the order of the file."""
        raise DatasetError(sorted(self._kept, key=lambda fault: fault.row or 0), more=self._more)


def _text(content: bytes) -> str:
    """Decode bytes; those that are no UTF-8 are taken for Latin-1 too."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{content.decode('utf-8', 'replace')}\n{content.decode('latin-1')}"


def _unescaped(match: re.Match[str]) -> str:
    """Return the UTF-16 unit for which an escape of JSON stands."""
    return match[2] if match[1] is None else chr(int(match[1], 16))
