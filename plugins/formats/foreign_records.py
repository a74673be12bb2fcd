"""The base class of formats each of whose records is a conversation in another tool's form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.base import DatasetFormat
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import ValueFault, listed, mapping


class ForeignRecords(DatasetFormat):
    """Reads records by a function that returns the conversation in one."""

    answer_column = "messages"
    columns: ClassVar[Columns] = {}
    is_flat = False

    @abstractmethod
    def conversation(self, record: dict[str, Any], section: str) -> Conversation | None:
        """Return the conversation that a record is, ``None`` for one that only describes others.

        Args:
            section: The list of the document that contains it, ``""`` for a plain list.

        Raises:
            ValueFault: It cannot be read.
        """

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record."""
        try:
            if (found := self.conversation(record, item.section)) is not None:
                self.stage_conversation(item.place, found)
        except ValueFault as error:
            self.faults.add(item.place, "", str(error))


def objects(value: Any) -> list[dict[str, Any]]:
    """Read a list of objects; nothing is an empty one."""
    return [] if value is None else [mapping(each) for each in listed(value)]


def members(value: Any) -> dict[str, Any]:
    """Read an object without its nulls; nothing is an empty one."""
    return {} if value is None else {name: each for name, each in mapping(value).items() if each is not None}
