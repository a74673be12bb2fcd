"""The user's mapping of columns: ``--map FIELD=COLUMN``, and ``[dataset.map]`` of ``leadline.toml``.

A field is named by any of its names. ``COLUMN=FIELD`` is understood where only that makes sense.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final, TypeAlias

from leadline.evaluators.ground import FILE, DatasetError, ErrorCode, Fault, UsageError, settings_document
from leadline.tasks.load.field_names import LABELS, METADATA, field_names, field_of, known_names, normalized
from leadline.tasks.load.values import shown

ColumnMap: TypeAlias = Mapping[str, str | Sequence[str]]
"""Field to the column that fills it, as a user writes it; ``metadata`` may have several."""

_NAMED: Final = 20
_LONGEST: Final = 60


def project_map() -> ColumnMap:
    """Return the table ``[dataset.map]`` of ``leadline.toml`` in the working directory, empty without one.

    Raises:
        UsageError: The file cannot be read, or the table is no mapping of names.
    """
    dataset = settings_document().get("dataset", {})
    found = dataset.get("map", {}) if isinstance(dataset, dict) else None
    if not isinstance(found, dict) or not all(map(_is_column, found.values())):
        raise UsageError(
            f"{FILE}: [dataset.map] has a field and its column on each line.",
            hint='Write: expected_answer = "gold"',
            code=ErrorCode.CONFIG_CONTENT,
        )
    return found


def _is_column(value: object) -> bool:
    return all(isinstance(each, str) for each in (value if isinstance(value, list) else [value]))


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Names of the columns of a file, as far as they are known before it is read.

    Attributes:
        names: The names, in the order of the file.
        complete: Whether these are all, as in a table; records of JSON may have others later.
        asked: Columns that the user mapped, each with its field or ``metadata``.
        warnings: What the user should know of the mapping.
        late: Columns whose meaning is told by their values, in the first records as far as there are some.
    """

    names: tuple[str, ...] = ()
    complete: bool = False
    asked: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    late: frozenset[str] = frozenset()


def map_columns(
    names: ColumnNames, asked: ColumnMap, defaults: ColumnMap | None = None, *, file: str = ""
) -> ColumnNames:
    """Return the names of a file with the user's mapping of them.

    Args:
        asked: The mapping for this file.
        defaults: The mapping for all files of the project; columns that this one does not have are a warning.
        file: The file as the user named it.

    Raises:
        DatasetError: A field or column does not exist, or two columns are to fill one field.
    """
    faults: list[Fault] = []
    found: dict[str, str] = {}

    def note(pair: str, message: str) -> None:
        faults.append(Fault(file, None, "", f"--map {pair}: {message}"))

    for left, right in _pairs(asked):
        pair = f"{shown(left)[1:-1]}={shown(right)[1:-1]}"
        column, target, message = _understood(left, right, names)
        if message:
            note(pair, message)
        elif found.get(column, target) != target:
            note(pair, f"the column is mapped to {found[column]} too")
        elif target != METADATA and target in found.values() and column not in found:
            other = next(name for name, its in found.items() if its == target)
            note(pair, f"column {shown(other)} is mapped to {target} too; a field has one column")
        else:
            found[column] = target
    if faults:
        raise DatasetError(faults, code=ErrorCode.DATA_COLUMNS)
    return _with_defaults(names, found, defaults or {})


def _with_defaults(names: ColumnNames, asked: dict[str, str], defaults: ColumnMap) -> ColumnNames:
    warnings = []
    found = dict(asked)
    for left, right in _pairs(defaults):
        column, target, message = _understood(left, right, names)
        if column not in names.names and any(field_of(name) == (target or _field(left), True) for name in names.names):
            continue  # the file has the field in a name of its own
        if message or column not in names.names:
            reason = message or f"the file has no column {shown(column)}"
            warnings.append(f"[dataset.map] of leadline.toml, {shown(left)}: {reason}")
        elif column not in found and (target == METADATA or target not in found.values()):
            found[column] = target
    return replace(names, asked=found, warnings=tuple(warnings))


def mapped(field: str, column: str) -> str:
    """Return the option that maps a column to a field, as a shell takes it.

    Args:
        column: The column; one whose name cannot be typed is left open.
    """
    name = column if column.isprintable() and len(column) <= _LONGEST else "COLUMN"
    return f"--map {shlex.quote(f'{field}={name}')}"


def _pairs(asked: ColumnMap) -> Iterator[tuple[str, str]]:
    for left, right in asked.items():
        for each in [right] if isinstance(right, str) else right:
            yield left.strip(), each.strip()


def _understood(left: str, right: str, names: ColumnNames) -> tuple[str, str, str]:
    """Return the column and the field that a pair names, or the message why there are none."""
    field, column = _field(left), _column(right, names)
    if field and column:
        return column, field, ""
    other_field, other_column = _field(right), _column(left, names)
    if other_field and other_column:
        return other_column, other_field, ""
    if not field and not other_field:
        near = get_close_matches(normalized(left), known_names(), n=1)
        hint = f"did you mean {known_names()[near[0]].field}? " if near else ""
        return "", "", f"there is no field {shown(left)}; {hint}write FIELD=COLUMN, the fields are {_fields()}"
    missing, wanted = (right, field) if field else (left, other_field)
    if not names.complete:
        return missing, wanted, ""
    near = get_close_matches(missing, names.names[:1000], n=1)
    hint = f"did you mean {shown(near[0])}? " if near else ""
    more = ", …" if len(names.names) > _NAMED else ""
    there = ", ".join(shown(name) for name in names.names[:_NAMED])
    return "", "", f"there is no column {shown(missing)}; {hint}the columns are {there}{more}"


def _field(name: str) -> str:
    if normalized(name) in (METADATA, LABELS):
        return normalized(name)
    match = known_names().get(normalized(name))
    return match.field if match else ""


def _fields() -> str:
    return ", ".join(field_names())


def _column(name: str, names: ColumnNames) -> str:
    """Return the column of a name, also without regard to case, blanks and underscores where that is clear."""
    if name in names.names:
        return name
    alike = [column for column in names.names if normalized(column) == normalized(name)]
    return alike[0] if len(alike) == 1 else ""
