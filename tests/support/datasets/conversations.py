"""Records of conversations, and what a format makes of them before it is staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.formats.registry import get_format, recognised_format
from leadline.tasks.load.readers import Item


def conversations_of(
    records: Sequence[dict[str, Any]], *, kind: str = "", section: str = "", cases_only: bool = False
) -> list[Conversation]:
    """Return the conversations in records, all of which must be conversations without a fault.

    Args:
        kind: The format; by default the one that recognises the records.
        section: The list of a document that contains them.
        cases_only: Whether answers are yet to be collected.
    """
    names = {name for record in records for name in record}
    found = get_format(kind) if kind else recognised_format(names, {section} if section else set())
    assert found is not None
    nothing: Any = None
    faults = Faults("")
    reader: Any = found(nothing, nothing, nothing, faults, cells=False, cases_only=cases_only)
    conversations: list[Conversation] = []

    def keep(place: Place, conversation: Conversation) -> None:
        conversations.append(conversation)

    reader.stage_conversation = keep
    for row, record in enumerate(records, start=1):
        reader.convert_record(Item(section, row, record, 0), record)
    assert not faults
    return conversations
