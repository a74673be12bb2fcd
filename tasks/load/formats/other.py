"""Records of other tools: any names that mean a question or an answer."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache
from typing import Any, ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.field_names import container_of, field_of, normalized
from leadline.tasks.load.formats.base import ANSWER_COLUMNS, CASE_COLUMNS, DatasetFormat, Values
from leadline.tasks.load.formats.chat import reply
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers.item import Item
from leadline.tasks.load.values import Reading, ValueFault, anything, as_json, filled, text, texts, unpacked

_ENOUGH: Final = frozenset({"question", "actual_answer"})
_OBJECTS: Final = frozenset(
    map(normalized, ("inputs", "outputs", "reference_outputs", "expected_outputs", "expectations"))
)
"""Names that LangSmith and MLflow give to objects only."""
_CONVERSATION: Final = "messages"


@register
class Other(DatasetFormat):
    """Reads records whose names are those of no one tool: ``Question,Answer``, ``prompt,response``, LangSmith's runs.

    A question may be a conversation and an answer a chat completion. Objects around them, such as LangSmith's
    ``inputs`` and ``outputs``, are opened.
    """

    name = "other"
    title = "Other"
    recognised_by = "any [name](#columns) of a question or an answer"
    answer_column = "actual_answer"
    columns: ClassVar[Columns] = {
        **CASE_COLUMNS,
        **ANSWER_COLUMNS,
        "question": ("chat", anything),
        "actual_answer": ("reply", anything),
        "expected_answer": ("reference", anything),
    }

    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {
        "chat": ("question", filled),
        "reply": ("answer", text),
        "reference": ("expected", texts),
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that records can be read by the names of their fields alone: hardly."""
        known = {match.field for match in map(field_of, names) if match}
        return 0.05 if known & _ENOUGH and not sections else 0

    def prepared(self, columns: Columns) -> Columns:
        """Return columns read as the container needs it; in CSV a text that is JSON stays the text that it is."""
        as_they_are = {name: target for name, target in columns.items() if target[0] in ("chat", "reply")}
        return {**super().prepared(columns), **as_they_are}

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the types of the values that are objects around a text, or that may contain one as JSON."""
        if _is_packed(name):
            return (object,)
        return (dict,) if container_of(name) is not None else super().opens(name)

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record, with the objects around its texts opened."""
        super().convert_record(item, _opened(record, cells=self._cells))

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Take the question from a conversation, the answer from a completion, and the reference from an object."""
        self.take_question(place, values, "question", values.pop("chat", None))
        answer = reply(self.faults, place, "actual_answer", values.pop("reply", None))
        if answer is not None:
            values["answer"] = answer
        reference = values.pop("reference", None)
        if reference is not None:
            try:
                values["expected"] = [as_json(reference)] if isinstance(reference, dict) else texts(reference)
            except ValueFault as error:
                self.faults.add(place, "expected_answer", str(error))


def _opened(record: dict[str, Any], *, cells: bool) -> dict[str, Any]:
    """Return a record in which objects around a text are replaced by the text, and by their other members.

    The text is the member whose name means the same as the object's; in ``inputs`` and the like it may also be the
    only one. Other members are named after both: ``inputs.context``.

    Args:
        cells: Whether every value is a text, as in CSV; members become texts then, too.
    """
    packed = [name for name, value in record.items() if isinstance(value, dict) or _is_packed(name)]
    if not packed:
        return record
    out: dict[str, Any] = {}
    for name, value in record.items():
        if name in packed and isinstance(value, str):
            value = unpacked(value)
        members = _members(name, value)
        single = len(members) == 1 and normalized(name) in _OBJECTS
        text = next(iter(members)) if single else _text_in(name, members)
        if text is None:
            out[name] = value
            continue
        out[name] = members.pop(text)
        for member, its in members.items():
            out[f"{name}.{member}"] = as_json(its) if cells and not isinstance(its, str) else its
    return out


@lru_cache(maxsize=1024)
def _is_packed(name: str) -> bool:
    """Return whether a cell of this name holds an object or a conversation as JSON."""
    return normalized(name) in (*_OBJECTS, _CONVERSATION)


def _members(name: str, value: Any) -> dict[str, Any]:
    """Return the members of an object around a text; none of anything else, nor of a conversation or completion."""
    if not isinstance(value, dict) or _CONVERSATION in value or "choices" in value or container_of(name) is None:
        return {}
    return {member: its for member, its in value.items() if its is not None}


def _text_in(name: str, members: dict[str, Any]) -> str | None:
    """Return the member whose name means the same as the object's."""
    for member in members:
        match = field_of(f"{name}.{member}")
        if match is not None and match.field == container_of(name):
            return member
    return None
