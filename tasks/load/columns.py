"""Columns of a file and the fields that they fill: by the user's mapping, by their format, or by the names of fields.

A name is decided on when it first occurs, so that matching costs nothing per row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Final, TypeAlias

from leadline.tasks.load.column_map import mapped
from leadline.tasks.load.field_names import METADATA, field_of, normalized, resembling
from leadline.tasks.load.values import Reading, shown

Columns: TypeAlias = Mapping[str, tuple[str, Reading]]
"""Column of a record to the field that it fills and how its value is read."""

_SCORED: Final = ("question", "actual_answer", "expected_answer", "retrieved_context")
"""Fields that scores are made of: where two columns could be one of them, the user has to say which."""
_DISPUTED: Final = ("expected_answer",)
"""Fields whose weak names mean the same also beside a clear one: ``label`` beside ``reference``, not ``source`` beside
``contexts``."""
_PHOENIX: Final = frozenset({"input", "output", "reference"})
_NAMED: Final = 10
"""Columns that messages name; the others are counted."""
_MOST_NAMES: Final = 20_000
"""Names that are learned; records that all have keys of their own do not fill the memory."""


class ColumnTable:
    """The columns of one kind of record, and the fields that they fill.

    A field is filled by the column that the user mapped to it, else by those that the format names so, else by one
    whose name is known for the field.

    Args:
        own: The columns of the format.
        defaults: Leadline's columns for fields that the format has no column for.
        asked: Columns that the user mapped, each with its field or ``metadata``.
        kept: Columns that the format keeps as metadata, whatever they mean elsewhere.

    Attributes:
        known: The columns that are read.
        seen: All names so far.
        is_read: Whether a record was read.
        fields: The columns that fill a field, each with the field's name.
        faults: Fields for which the user must choose one of several columns, with the message.
        warnings: Fields for which a doubtful column was chosen, with what the user should know.
    """

    def __init__(
        self, own: Columns, defaults: Columns, *, asked: Mapping[str, str] | None = None, kept: Set[str] = frozenset()
    ) -> None:
        self._own = frozenset(own)
        self._targets = dict(defaults)
        for column, target in reversed(list(own.items())):
            if (match := field_of(column)) is not None:
                self._targets[match.field] = target
        self._same = {normalized(column): target for column, target in reversed(list(own.items()))}
        self._kept = kept
        self._asked = dict(asked or {})
        self._filled: dict[str, str] = {}
        self._unknown: list[str] = []
        self._taken: list[tuple[str, str]] = []
        self.known: dict[str, tuple[str, Reading]] = dict(own)
        self.seen: dict[str, None] = {}
        self.is_read = False
        self.fields: dict[str, str] = {}
        self.faults: list[tuple[str, str]] = []
        self.warnings: list[tuple[str, str]] = []
        for column, field in self._asked.items():
            self._map(column, field)

    def _map(self, column: str, field: str) -> None:
        """Have a column fill a field because the user says so; no other column fills the field then."""
        self.known.pop(column, None)
        target = self._targets.get(field)
        if field != METADATA and target is not None:
            self.known = {name: other for name, other in self.known.items() if other[0] != target[0]} | {column: target}
            self._filled[target[0]] = column

    def of(self, record: Mapping[str, object]) -> Columns:
        """Return the columns that are read of a record."""
        if not self.is_read or (len(self.seen) < _MOST_NAMES and not self.seen.keys() >= record.keys()):
            self.is_read = True
            self.learn(record)
        return self.known

    def learn(self, names: Iterable[str]) -> None:
        """Decide what the names of a record fill that no record had before."""
        new = [name for name in names if name not in self.seen]
        self.seen.update(dict.fromkeys(new))
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in new:
            if name in self.known:
                self._fill(name, self.known[name])
            elif name in self._kept or name in self._asked:
                continue
            elif (match := field_of(name)) is not None and match.field in self._targets:
                found[match.field].append(name)
            elif (target := self._same.get(normalized(name))) is not None and target[0] not in self._filled:
                self._fill(name, target)
            else:
                self._unknown.append(name)
        for field, columns in found.items():
            self._choose(field, columns)

    def fills(self, field: str) -> bool:
        """Return whether some column fills one of the format's own fields."""
        return field in self._filled

    def field_name(self, column: str) -> str:
        """Return the name of the field that a column of the format fills."""
        match = field_of(column)
        return match.field if match else column

    def hint(self, column: str) -> str:
        """Return how to keep a column as metadata that was taken for a field because of its name, ``""`` for others."""
        if column in self._own or column in self._asked:
            return ""
        return f" (it is read as {self.fields[column]}; if it is something else: {mapped(METADATA, column)})"

    def others(self) -> list[str]:
        """Return the columns that are kept as metadata."""
        return [name for name in self.seen if name not in self.known]

    def notes(self, *, without: Set[str] = frozenset()) -> Iterator[str]:
        """Yield what the user should know of the columns.

        Args:
            without: Fields of no interest.
        """
        yield from (warning for field, warning in self.warnings if field not in without)
        for field, column in [each for each in self._taken if each[0] not in without][:_NAMED]:
            used = shown(self._filled.get(self._targets[field][0]) or self._filled.get("model_name", ""))
            yield (
                f"column {shown(column)} looks like {field}, which {used} is, and was kept as metadata; to take it "
                f"instead: {mapped(field, column)}"
            )
        if self.seen.keys() >= _PHOENIX and self.fields.get("reference") == "expected_answer":
            retrieved = mapped("retrieved_context", "reference")
            yield f"column 'reference' is read as expected_answer; Phoenix calls the retrieved text so: {retrieved}"
        free = {field for field, target in self._targets.items() if target[0] not in self._filled} - without
        for field, column in islice(resembling(self._unknown, free), _NAMED):
            yield f"column {shown(column)} was not used; did you mean {field}? {mapped(field, column)}"

    def _choose(self, field: str, columns: list[str]) -> None:
        """Have the best of some columns fill a field, unless something fills it already."""
        target = self._targets[field]
        clear = [column for column in columns if _is_clear(column)]
        weak = [column for column in columns if not _is_clear(column)]
        rivals = [*clear, *(weak if field in _DISPUTED else ())]
        if target[0] in self._filled or (field == "model" and "model_name" in self._filled):
            used = self._filled.get(target[0], "")
            if field == "actual_answer" and clear and normalized(used) == "answer" and used not in self._asked:
                self._dispute(field, [used, *clear], reference=used)
            self._taken += [(field, column) for column in rivals]
            return
        best = [column for column in clear if normalized(column) in self._same] or clear or weak
        if len(best) > 1 and field in _SCORED:
            self._dispute(field, best)
        self._fill(best[0], target, field)
        self._taken += [(field, column) for column in rivals if column != best[0]]
        if not clear:
            message = f"column {shown(best[0])} is read as {field}; if it is something else: "
            self.warnings.append((field, message + mapped(METADATA, best[0])))

    def _dispute(self, field: str, columns: list[str], *, reference: str = "") -> None:
        """Have the user say which of some columns fills a field.

        Args:
            reference: That of them which may be the expected answer, as ``answer`` is beside ``prediction``.
        """
        choices = " or ".join(mapped(field, column) for column in columns[:3])
        if reference and not self.fills(self._targets["expected_answer"][0]):
            choices += f" {mapped('expected_answer', reference)}"
        self.faults.append((field, f"columns {listed(columns)} could each be the {field}; say which is: {choices}"))

    def _fill(self, column: str, target: tuple[str, Reading], field: str = "") -> None:
        self.known[column] = target
        self._filled.setdefault(target[0], column)
        self.fields[column] = field or self._asked.get(column) or self._name_of(column, target[0])

    def _name_of(self, column: str, internal: str) -> str:
        """Return a field's name for people: Leadline's, else the column's own."""
        match = field_of(column)
        if match is not None and self._targets.get(match.field, ("",))[0] == internal:
            return match.field
        return next((field for field, target in self._targets.items() if target[0] == internal), column)


def _is_clear(column: str) -> bool:
    match = field_of(column)
    return match is not None and match.clear


def listed(columns: Iterable[str]) -> str:
    """Return the names of columns for a message: some of them, and how many more there are."""
    names = list(columns)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more
