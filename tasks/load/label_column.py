"""The column ``labels``: what people say of the answers of a dataset.

An object of names and values, ``{"faithfulness": 1, "llamaindex.correctness": {"value": 4, "person": "anna"}}``. It is
kept beside the rows, and no evaluator reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.tasks.load.column_map import mapped
from leadline.tasks.load.field_names import LABELS, METADATA
from leadline.tasks.load.label import LONGEST, label_value, value_range
from leadline.tasks.load.values import ValueFault, shown, unpacked

if TYPE_CHECKING:
    from leadline.tasks.load.column_map import ColumnNames

MAX_LABELS: Final = 1000
"""Labels of one answer."""

MAX_NAME: Final = 200
"""Characters of the name of a metric, and of a person."""

SOMEBODY: Final = "unnamed"
"""The person of a label that names none; further ones of a list are numbered."""

_MEMBERS: Final = frozenset({"value", "person", "note"})


class GivenLabel(NamedTuple):
    """One person's opinion of an answer.

    Attributes:
        question: The evaluator, or ``EVALUATOR.METRIC``, as the dataset names it.
        value: 1 for good and 0 for bad, or a number of the metric's range; ``None`` for "can't tell".
        person: Who said so.
        note: What the person added.
    """

    question: str
    value: float | None
    person: str
    note: str


@dataclass(slots=True)
class LabelColumn:
    """The column of a file that has people's labels.

    A column ``labels`` of anything but objects is none: it has the meaning that it has by its name.

    Attributes:
        name: The column; ``None`` where the user or the format says that ``labels`` is something else.
        asked: Whether the user says that it has labels.
        cells: Whether every value is a text, as in CSV.
        table: Whether the file is a table of types, in which a row has all members of an object, absent ones as nulls.
        used: Whether some record had labels.
        met: Whether some record had the column.
    """

    name: str | None
    asked: bool
    cells: bool
    table: bool
    used: bool = False
    met: bool = False

    @classmethod
    def of(cls, named: ColumnNames, *, cells: bool, taken: bool) -> LabelColumn:
        """Return the column of a file.

        Args:
            named: Its columns, with the user's mapping.
            cells: Whether every value is a text.
            taken: Whether its format has a column ``labels`` of its own.
        """
        asked = [column for column, field in named.asked.items() if field == LABELS]
        name = asked[0] if asked else None if taken or LABELS in named.asked else LABELS
        return cls(name, bool(asked), cells, table=named.complete and not cells)

    def holds(self, value: object) -> bool:
        """Say whether a value of the column can be labels, or is absent."""
        if value is None or type(value) is dict:
            return True
        if self.cells and isinstance(value, str):
            return self.asked or value.strip()[:1] in ("", "{")
        return self.asked

    def read(self, value: object) -> tuple[list[GivenLabel], list[str]]:
        """Return the labels of an answer, and what is wrong with them.

        Args:
            value: What stands in the column; :meth:`holds` it.
        """
        self.met = True
        try:
            found = unpacked(value)
        except ValueFault as error:
            return [], [str(error)]
        if found is None or (isinstance(found, str) and not found.strip()):
            return [], []
        if type(found) is not dict:
            what = 'an object of evaluators and values, as in {"faithfulness": 1}'
            return [], [f"expected {what}, found {shown(found)}{self.hint}"]
        labels: list[GivenLabel] = []
        faults: list[str] = []
        for name, each in found.items():
            if each is None and self.table:
                continue
            try:
                labels += _labels_of(name, each)
            except ValueFault as error:
                faults.append(f"{shown(name)}: {error}{self.hint}")
            if len(labels) > MAX_LABELS:
                return [], [*faults, f"the answer has more than {MAX_LABELS:,} labels"]
        self.used = True
        return labels, faults

    @property
    def hint(self) -> str:
        """The option that keeps the column as metadata, for messages."""
        if self.asked or self.name is None:
            return ""
        return f" (these are read as people's labels; if they are something else: {mapped(METADATA, self.name)})"


def _labels_of(name: object, given: object) -> Iterator[GivenLabel]:
    """Yield the labels of one metric: one, or a list of several people's."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ValueFault(f"the name of a label is an evaluator, or EVALUATOR.METRIC, of at most {MAX_NAME} characters")
    several = given if isinstance(given, list) else [given]
    if len(several) > MAX_LABELS:
        raise ValueFault(f"the list has {len(several):,} labels; at most {MAX_LABELS:,} are read")
    people: set[str] = set()
    for number, each in enumerate(several, start=1):
        label = _label(name.strip(), each, SOMEBODY if number == 1 else f"{SOMEBODY} {number}")
        if label.person in people:
            raise ValueFault(f"{shown(label.person)} says two things")
        people.add(label.person)
        yield label


def _label(question: str, given: object, person: str) -> GivenLabel:
    if type(given) is dict:
        unknown = given.keys() - _MEMBERS
        if unknown or "value" not in given:
            raise ValueFault("a label is a value, or an object of value, person and note")
        person = _text(given, "person", MAX_NAME) or person
        return GivenLabel(question, _value(question, given["value"]), person, _text(given, "note", LONGEST))
    return GivenLabel(question, _value(question, given), person, "")


def _value(question: str, given: object) -> float | None:
    try:
        value = label_value(given)
    except ValueError:
        raise ValueFault(f"expected a number, pass, fail or can't tell, found {shown(given)}") from None
    low, high = value_range(question)
    if value is not None and not low <= value <= high:
        raise ValueFault(f"its values are from {low:g} to {high:g}, found {shown(given)}")
    return value


def _text(given: Mapping[str, Any], name: str, longest: int) -> str:
    found = given.get(name)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > longest:
        raise ValueFault(f"{name} is a text of at most {longest:,} characters, found {shown(found)}")
    return found.strip()
