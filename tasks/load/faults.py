"""The list of everything that is wrong with a dataset, so that its owner can mend it in one go."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from evaluators.errors import DatasetError, Fault
from tasks.load.limits import MAX_FAULTS


class Place(NamedTuple):
    """Where in a file something stands.

    Attributes:
        row: 1-based position of the record: the line of a JSON Lines file, the row of a table below its
            header, the element of an array.
        part: What of the record, as the beginning of a path: ``""`` or, for example, ``"cases[]."``.
    """

    row: int
    part: str = ""


class Faults:
    """Collects faults; keeps the first ones and counts the rest.

    Attributes:
        file: The file as the user named it.
        unreadable: Whether some record could not be read at all, so that what refers to it is no fault.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.unreadable = False
        self._kept: list[Fault] = []
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def room(self) -> int:
        """How many more faults would be kept."""
        return MAX_FAULTS - len(self._kept)

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
