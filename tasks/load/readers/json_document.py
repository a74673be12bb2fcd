"""JSON documents: a list of records, or an object that contains lists of records.

The elements of a list of the outer object (or of a list of an object in it) are the records of that section. Other
members are skipped. Several outer values, one after the other, are records too.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import closing
from typing import TYPE_CHECKING, Final

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_RECORD, MIB
from leadline.tasks.load.readers.item import Item
from leadline.tasks.load.readers.json_scanner import Scanner, TooLong
from leadline.tasks.load.readers.json_values import Broken

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

MODELS: Final = "models"
"""List of a document that describes models."""

TITLE: Final = "name"
"""Member that is the name of the dataset: an item of its own, whose value is a text."""

ANSWERS: Final = "answers"
"""List that a document has, or a single case with its answers."""


def read_document(source: SourceFile, faults: Faults, sections: Set[str] = frozenset()) -> Iterator[Item]:
    """Read the records of a document in the order of the file.

    Args:
        faults: Where to note what cannot be read.
        sections: Lists of the outer object whose elements are the records, as paths; empty if the file is a list of
            records, or records one after the other.
    """
    with closing(Scanner(source)) as scanner:
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
        except TooLong:
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
    with closing(Scanner(source)) as scanner:
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
        except (Broken, TooLong):
            return False
        return ANSWERS in names and names <= {TITLE, "description", "metadata", ANSWERS}


def _objects_of(sections: Set[str]) -> set[str]:
    """Return the members of a document that contain lists of records themselves."""
    return {path.partition(".")[0] for path in sections if "." in path}


class _JsonWalk:
    """Reads a document and keeps the place of the record that is being read."""

    def __init__(self, scanner: Scanner, sections: Set[str], faults: Faults) -> None:
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
