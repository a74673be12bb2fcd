"""Tables as classes: the fields are the columns, with their types and what they mean.

From the fields come the table's definition in DuckDB, what is selected, the objects that are read, the types in pandas
and the lines in the pages. A field is ``Annotated[float | None, "what it means"]``; one without words shares those of
the field before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Kind = TypeVar("Kind", bound=type)
Line = TypeVar("Line")

_TABLE: Final = "_table"
_TYPES: Final[Mapping[Any, str]] = {
    str: "VARCHAR", Literal: "VARCHAR", Mapping: "VARCHAR", float: "DOUBLE", bool: "BOOLEAN"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sql:
    """DuckDB's type of a column that Python's does not tell, with a default or a key."""

    type: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type: DuckDB's, such as ``UBIGINT``.
        optional: It may be NULL.
        words: What it means, in Markdown; ``""`` where the column before it says so.
        parse: Makes Python's value of DuckDB's.
    """

    name: str
    type: str
    optional: bool
    words: str
    parse: Callable[[Any], Any]

    @property
    def definition(self) -> str:
        """The column in ``CREATE TABLE``."""
        return f"{self.name} {self.type}{'' if self.optional else ' NOT NULL'}"

    @property
    def pandas(self) -> str:
        """The column's type in pandas: texts and JSON are ``string``, numbers that may be missing ``Int64``."""
        kind = self.type.split()[0]
        if kind == "DOUBLE":
            return "float64"
        if kind == "TIMESTAMP":
            return "datetime64[us]"
        if kind == "BOOLEAN":
            return "boolean" if self.optional else "bool"
        return ("Int64" if self.optional else "int64") if "INT" in kind else "string"


def table(name: str) -> Callable[[Kind], Kind]:
    """Name the table of which a class has the columns; one that is read as objects is a dataclass too."""

    def named(kind: Kind) -> Kind:
        setattr(kind, _TABLE, name)
        return kind

    return named


def table_of(kind: type) -> str:
    """Return the name of a class's table."""
    return str(getattr(kind, _TABLE))


def columns_of(kind: type) -> tuple[TableColumn, ...]:
    """Return the columns of a class's table, in their order."""
    return tuple(_column(name, hint) for name, hint in get_type_hints(kind, include_extras=True).items())


def definition(kind: type) -> str:
    """Return the statement that makes the table."""
    return f"CREATE TABLE {table_of(kind)} ({', '.join(column.definition for column in columns_of(kind))});"


def read_lines(connection: DuckDBPyConnection, kind: type[Line], *, order: str) -> list[Line]:
    """Return the lines of a table as objects, sorted by the columns of ``order``, which is SQL."""
    columns = columns_of(kind)
    names = ", ".join(column.name for column in columns)
    lines = connection.execute(f"SELECT {names} FROM {table_of(kind)} ORDER BY {order}").fetchall()
    return [kind(*(column.parse(value) for column, value in zip(columns, line, strict=True))) for line in lines]


def line_of(kind: type[Line], record: Mapping[str, Any]) -> Line:
    """Return a line of a table as an object; values of other columns are left out."""
    return kind(*(column.parse(record[column.name]) for column in columns_of(kind)))


def _column(name: str, hint: Any) -> TableColumn:
    bare, notes, optional = _unwrapped(hint)
    words = "".join(note for note in notes if isinstance(note, str))
    return TableColumn(name, _type(hint), optional, words, _PARSES.get(get_origin(bare), _as_it_is))


def _type(hint: Any) -> str:
    """Return DuckDB's type of Python's: what is noted on it, the outermost note first, or that of :data:`_TYPES`."""
    bare, notes, _ = _unwrapped(hint)
    noted = [note.type for note in notes if isinstance(note, Sql)]
    if noted:
        return noted[-1]
    origin = get_origin(bare) or bare
    return f"{_type(get_args(bare)[0])}[]" if origin is tuple else _TYPES[origin]


def _unwrapped(hint: Any) -> tuple[Any, list[Any], bool]:
    """Return a type without ``None`` and notes, the notes on it, the innermost first, and whether it had ``None``."""
    notes: list[Any] = []
    optional = False
    while (origin := get_origin(hint)) in (Annotated, Union, UnionType):
        if origin is Annotated:
            hint, *more = get_args(hint)
            notes = [*more, *notes]
        else:
            (hint,) = (part for part in get_args(hint) if part is not NoneType)
            optional = True
    return hint, notes, optional


def _as_it_is(value: Any) -> Any:
    return value


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {"value": value}


_PARSES: Final[Mapping[Any, Callable[[Any], Any]]] = {tuple: tuple, Mapping: _object}
"""What makes Python's values of DuckDB's, by type."""
