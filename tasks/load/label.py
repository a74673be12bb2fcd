"""Labels: each is one person's opinion of one answer; and reading them from a dataset's column ``labels``.

An object of names and values, ``{"faithfulness": 1, "llamaindex.correctness": {"value": 4, "person": "anna"}}``. It is
kept beside the rows, and no evaluator reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.load.columns import LABELS, METADATA, mapped
from leadline.tasks.load.values import ValueFault, shown, unpacked
from leadline.tasks.policy.questions import DECIDED_BY_ROWS

if TYPE_CHECKING:
    from leadline.tasks.load.columns import ColumnNames


LABELS_FILE: Final = "labels.parquet"
"""The file of people's labels, which only datasets that have some have; see ``dataset.sql``."""

ADJUDICATED: Final = "adjudicated"
"""The person of a label that was agreed on; it stands for all others of its row."""

TIE: Final = 0.5
"""What people say together of a row that as many pass as fail."""

_KEY: Final = re.compile(r"[0-9a-f]{32}")
LONGEST: Final = 2_000
"""Characters of a text of a label, such as its note."""

_WORDS: Final[Mapping[str, float | None]] = {
    **dict.fromkeys(("pass", "good", "yes", "true", "correct", "ok"), 1.0),
    **dict.fromkeys(("fail", "bad", "no", "false", "incorrect", "wrong"), 0.0),
    **dict.fromkeys(("", "can't tell", "cannot tell", "unsure", "skip", "null", "none"), None),
}
_MAX_LABELS: Final = 1000
"""Labels of one answer."""

_MAX_NAME: Final = 200
"""Characters of the name of a metric, and of a person."""

_SOMEBODY: Final = "unnamed"
"""The person of a label that names none; further ones of a list are numbered."""

_MEMBERS: Final = frozenset({"value", "person", "note"})


@dataclass(frozen=True, slots=True)
class Label:
    """One person's opinion of one answer.

    Attributes:
        key: Digest of what the person saw: question, contexts, expected answer and answer, 32 hex digits.
        question: What was asked: ``EVALUATOR.METRIC``.
        value: 1 for good and 0 for bad, or a number of the metric's range; ``None`` for "can't tell".
        person: Who said so, or :data:`ADJUDICATED`.
        at: When, as an ISO time.
        case: Key of the case, for readers.
        model: Key of the model, for readers.
        saw_judge: Whether the person saw the judge's verdict.
        sample: Id of the sample in which the row was drawn; ``""`` where somebody chose it.
        note: What the person added.
    """

    key: str
    question: str
    value: float | None
    person: str
    at: str
    case: str = ""
    model: str = ""
    saw_judge: bool = False
    sample: str = ""
    note: str = ""


def read_label(record: Mapping[str, Any], where: str) -> Label:
    """Return a label from the known fields of a record; errors say where it stands.

    Raises:
        UsageError: A field is missing or makes no sense.
    """

    def text(name: str, default: str = "") -> str:
        found = record.get(name)
        if found is None or found == "":
            return default
        if not isinstance(found, str) or len(found) > LONGEST:
            raise _refused(where, name, found, f"a text of at most {LONGEST:,} characters")
        return found

    key = text("key")
    if not _KEY.fullmatch(key):
        raise _refused(where, "key", key, "32 hex digits")
    question, person = text("question"), text("person")
    if not question or not person:
        raise _refused(where, "person" if question else "question", "", "a text")
    value, (low, high) = read_value(record.get("value"), where), value_range(question)
    if value is not None and not low <= value <= high:
        raise _refused(where, "value", f"{value:g}", f"from {low:g} to {high:g} for {question}")
    return Label(
        key=key,
        question=question,
        value=value,
        person=person,
        at=text("at", datetime.now(UTC).isoformat(timespec="seconds")),
        case=text("case"),
        model=text("model"),
        saw_judge=str(record.get("saw_judge")).lower() in ("true", "1"),
        sample=text("sample"),
        note=text("note"),
    )


def read_value(found: object, where: str) -> float | None:
    """Return the value of a label as people and programs write it; ``None`` for "can't tell".

    Args:
        found: A number, a truth value, or a word such as ``pass``, ``fail`` or ``can't tell``.
        where: Where it stands, for errors.

    Raises:
        UsageError: It is none of these.
    """
    try:
        return _label_value(found)
    except ValueError:
        raise _refused(where, "value", found, "a number, pass, fail or can't tell") from None


def _label_value(found: object) -> float | None:
    """Return the value of a label as people and programs write it; ``None`` for "can't tell".

    Raises:
        ValueError: It is none of these.
    """
    if found is None:
        return None
    if isinstance(found, str) and (word := found.strip().lower()) in _WORDS:
        return _WORDS[word]
    if not isinstance(found, str | int | float):
        raise ValueError("neither a number nor a word")
    try:
        value = float(found)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


@lru_cache(maxsize=1_000)
def value_range(question: str) -> tuple[float, float]:
    """Return the least and the greatest value of a metric's labels: 0 and 1, for fail and pass, and its range.

    Args:
        question: ``EVALUATOR.METRIC``, or ``EVALUATOR`` for its primary one; one that is not known here has no bounds.
    """
    from leadline.evaluators.core import find

    if question in DECIDED_BY_ROWS:
        return 0.0, 1.0
    for evaluator, key in ((question, ""), question.rpartition(".")[::2]):
        kind = find(evaluator.partition("#")[0])
        for metric in kind.spec.metrics if kind else ():
            if metric.key == key or (metric.primary and not key):
                return min(0.0, metric.range[0]), max(1.0, metric.range[1])
    return -math.inf, math.inf


def consensus(labels: Sequence[Label], *, binary: bool) -> float | None:
    """Return what people say together of a row: the mean of numbers, the majority of verdicts, a tie is one half.

    Args:
        labels: The last label of each person on the row; an adjudicated one stands for all.

    Returns:
        The value, or ``None`` where everybody can't tell.
    """
    agreed = [label for label in labels if label.person == ADJUDICATED] or labels
    values = [label.value for label in agreed if label.value is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return (float(mean > TIE) if mean != TIE else TIE) if binary else mean


def _refused(where: str, name: str, found: object, wanted: str) -> UsageError:
    shown = str(found)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return UsageError(f"{where}: {name} is {shown!r}, and must be {wanted}.", code=ErrorCode.LABEL_FILE)


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
        """Return the labels of an answer, and what is wrong with them."""
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
            if len(labels) > _MAX_LABELS:
                return [], [*faults, f"the answer has more than {_MAX_LABELS:,} labels"]
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
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise ValueFault(f"the name of a label is an evaluator, or EVALUATOR.METRIC, of at most {_MAX_NAME} characters")
    several = given if isinstance(given, list) else [given]
    if len(several) > _MAX_LABELS:
        raise ValueFault(f"the list has {len(several):,} labels; at most {_MAX_LABELS:,} are read")
    people: set[str] = set()
    for number, each in enumerate(several, start=1):
        label = _label(name.strip(), each, _SOMEBODY if number == 1 else f"{_SOMEBODY} {number}")
        if label.person in people:
            raise ValueFault(f"{shown(label.person)} says two things")
        people.add(label.person)
        yield label


def _label(question: str, given: object, person: str) -> GivenLabel:
    if type(given) is dict:
        unknown = given.keys() - _MEMBERS
        if unknown or "value" not in given:
            raise ValueFault("a label is a value, or an object of value, person and note")
        person = _text(given, "person", _MAX_NAME) or person
        return GivenLabel(question, _value(question, given["value"]), person, _text(given, "note", LONGEST))
    return GivenLabel(question, _value(question, given), person, "")


def _value(question: str, given: object) -> float | None:
    try:
        value = _label_value(given)
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
