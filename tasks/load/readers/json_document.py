"""JSON documents: a list of records, or an object that holds lists of records.

Whatever stands in an array of the outer object (or of its member ``dataset``) is a record of the section of that
name. The other members are passed over. Several outer values, one after the other, are records too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_RECORD, MIB
from leadline.tasks.load.readers import Item
from leadline.tasks.load.readers.json_scanner import Scanner, TooLong
from leadline.tasks.load.readers.json_values import Broken

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source

SECTIONS: Final = frozenset({"inputs", "results", "cases", "tests", "answers", "models"})
"""Members of a document whose elements are records."""

TITLE: Final = "name"
"""Member that is the name of the dataset: an item of its own, whose value is a text."""

ENVELOPES: Final = frozenset({"inputs", "results", "cases", "tests", "raw_dataset", "dataset"})
"""Members that a document has and a record has not."""


def read_document(source: Source, faults: Faults, sections: frozenset[str] = frozenset()) -> Iterator[Item]:
    """Read the records of a document in the order of the file.

    Args:
        source: The file.
        faults: Where to note what cannot be read.
        sections: Members of the outer object whose elements are records, if it is known that there is such an object;
            otherwise those of :data:`SECTIONS` in what looks like one.
    """
    with closing(Scanner(source)) as scanner:
        walk = _Walk(scanner, sections or SECTIONS, faults)
        try:
            if sections or is_envelope(source):
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


def is_envelope(source: Source) -> bool:
    """Return whether a JSON file is one object around lists of records, rather than a record itself."""
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
                if name in ENVELOPES and scanner.peek() == (b"{" if name in ("dataset", "raw_dataset") else b"["):
                    return True
                if names & {"question", "actual_answer", "case", "input", "request", "user_input"}:
                    return False
                if name == "answers" and "models" in names:
                    return True
                scanner.skip()
                scanner.take(b",")
        except (Broken, TooLong):
            return False
        return "answers" in names and names <= {TITLE, "description", "metadata", "answers"}


class _Walk:
    """Goes through a document; knows where it is."""

    def __init__(self, scanner: Scanner, sections: frozenset[str], faults: Faults) -> None:
        self._faults = faults
        self.scanner = scanner
        self.sections = sections
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
        """Yield what stands in the lists of the object that comes next."""
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
            if name in self.sections or name in ENVELOPES or name == TITLE:
                self._faults.repeats(None, [prefix + name] if name in read else [])
                read.add(name)
            if name in self.sections and first == b"[":
                yield from self.elements(prefix + name)
            elif name in ("dataset", "raw_dataset") and not prefix and first == b"{":
                yield from self.members(f"{name}.")
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
            said = repr(found) if found else "the end of the file"
            raise Broken(f"broken JSON: expected {what}, found {said}", self.scanner.offset)
