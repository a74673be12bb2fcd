"""Columns by which rows are sliced: categories, metadata with few values, language, length, perturbation, retrieval.

A slice is the rows that share a value of a column. :func:`find_columns` says which columns a dataset has,
:func:`fill_slice_rows` writes down which row is in which slice.

References:
    * Grefenstette, "Comparing two language identification schemes", JADT (1995).
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, UsageError, count, listing, one_line
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import lines_shown, records, sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NONE: Final = "none"
"""Named in place of a column: no slices."""
LEAST_CASES: Final = 10
"""Independent cases in a slice, and outside of it, from which they are compared."""
MOST_VALUES: Final = 20
"""Most values of a metadata column that is taken unasked, and most slices of any column."""
MOST_COLUMNS: Final = 12
"""Most columns that are taken unasked."""
LEAST_ON_AVERAGE: Final = 5
"""Independent cases that a value of a metadata column has on average, for the column to be taken unasked."""
MOST_SLICES: Final = 240
"""Most slices of a run."""
LONGEST_VALUE: Final = 100
"""Most characters of a value; longer ones are texts, not values."""

LANGUAGE: Final = "language"
PERTURBATION: Final = "perturbation"
RETRIEVAL: Final = "retrieval"
BUILT_IN: Final = ("category", LANGUAGE, "question_length", PERTURBATION, RETRIEVAL)
_RETRIEVED: Final = {
    "expected document retrieved": "answers whose expected document was retrieved",
    "expected document missed": "answers whose expected document was not retrieved",
    "something retrieved": "answers for which something was retrieved",
    "nothing retrieved": "answers for which nothing was retrieved",
}
_LANGUAGE_KEYS: Final = ("language", "lang", "locale")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a dataset.

    Attributes:
        name: Its name: one of :data:`BUILT_IN`, or the key of the metadata.
        statement: The statement of ``slices.sql`` that gives its values.
        key: The key of the metadata, if it comes from there.
        left_out: Why it is not taken unasked; ``""`` if it is.
    """

    name: str
    statement: str
    key: str | None = None
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class ChosenColumn:
    """The columns of a run.

    Attributes:
        columns: Names of the columns that have slices.
        left_out: Why others have none, by name.
        asked: Whether they were named; else they were found.
    """

    columns: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    asked: bool = False


def find_columns(connection: DuckDBPyConnection) -> dict[str, Column]:
    """Return every column that the dataset has, by name; the metadata of cases goes before that of rows."""
    found: dict[str, Column] = {name: Column(name, name) for name in BUILT_IN}
    for table, statement in (("cases", "case_metadata"), ("rows", "row_metadata")):
        for line in records(connection, sql("slices/metadata_keys").format(table=table)):
            key = line["key"]
            name = LANGUAGE if key.casefold() in _LANGUAGE_KEYS else f"metadata.{key}" if key in BUILT_IN else key
            taken = found.get(name)
            if taken is None or taken.statement == LANGUAGE:
                found[name] = Column(name, statement, key, _why_not(line["n_values"], line["longest"]))
    return found


def _why_not(n_values: int, longest: int) -> str:
    if n_values < 2:
        return "it has one value"
    if n_values > MOST_VALUES:
        return f"it has {n_values:,} values, more than {MOST_VALUES}"
    return f"its values are longer than {LONGEST_VALUE} characters" if longest > LONGEST_VALUE else ""


def require_columns(connection: DuckDBPyConnection, names: Sequence[str]) -> None:
    """Refuse a name that is no column of the dataset.

    Args:
        connection: A database with the dataset's views.
        names: The names asked for.

    Raises:
        UsageError: The dataset has no such column.
    """
    if not names or list(names) == [NONE]:
        return
    known = find_columns(connection)
    for name in names:
        if name not in known:
            raise UsageError(
                f"There is no column {one_line(name)!r} to slice by.",
                hint=f"Columns: {listing(map(one_line, known), most=20)}; or {NONE} alone for no slices.",
                code=ErrorCode.DATA_NO_COLUMN,
            )


def fill_slice_rows(
    connection: DuckDBPyConnection, *, names: Sequence[str] = (), demanded: Sequence[str] = ()
) -> ChosenColumn:
    """Fill the table ``slice_rows`` and say which columns have slices.

    Args:
        connection: The run's database, aggregated.
        names: Columns to slice by; all that suit when empty.
        demanded: Columns that the run's policy names: they are taken in any case.
    """
    connection.execute("DELETE FROM slice_rows")
    if list(names) == [NONE] and not demanded:
        return ChosenColumn(asked=True)
    known = find_columns(connection)
    asked = dict.fromkeys((*(name for name in names if name != NONE), *demanded))
    left_out = {name: column.left_out for name, column in known.items() if column.left_out and name not in asked}
    wanted = [known[name] for name in asked if name in known]
    if not names:
        unasked = [known[name] for name in known if name not in asked and name not in left_out]
        left_out |= {column.name: f"there are {len(unasked)} columns" for column in unasked[MOST_COLUMNS:]}
        wanted += unasked[:MOST_COLUMNS]
    _candidates(connection, wanted)
    values = _values(connection, asked, left_out)
    _choose(connection, values)
    return ChosenColumn(tuple(values), left_out, asked=bool(names))


def _candidates(connection: DuckDBPyConnection, columns: Sequence[Column]) -> None:
    connection.execute(sql("slices/candidates"))
    connection.register("families", perturbation_clusters(connection))
    connection.execute(sql("slices/families"))
    connection.unregister("families")
    with lines_shown(connection, "language_words", _language_words()):
        for column in columns:
            params = {"column": column.name} | ({} if column.key is None else {"key": column.key})
            connection.execute(sql(f"slices/{column.statement}"), params)


@cache
def _language_words() -> dict[str, list[str]]:
    text = (files("leadline.tasks.analyse") / "language_words.toml").read_text(encoding="utf-8")
    pairs = [(language, word) for language, words in tomllib.loads(text).items() for word in words.split()]
    return {"language": [language for language, _ in pairs], "word": [word for _, word in pairs]}


def _values(
    connection: DuckDBPyConnection, asked: Mapping[str, None], left_out: dict[str, str]
) -> dict[str, list[str]]:
    """Return the values by column that become slices; why a column has none joins ``left_out``."""
    sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    rows: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for line in records(connection, sql("slices/values")):
        rows[line["slice_column"]].add((line["n_rows"], line["digest"]))
        if len(line["slice_value"]) <= LONGEST_VALUE:
            sizes[line["slice_column"]][line["slice_value"]] = line["n_cases"]
    out: dict[str, list[str]] = {}
    room = MOST_SLICES
    for name in sorted(sizes, key=lambda name: (name not in asked, name not in BUILT_IN)):
        values = sizes[name]
        same = next((other for other in out if rows[other] == rows[name]), None)
        if name not in asked and (why := f"it says the same as {same}" if same else _too_few(name, values)):
            left_out[name] = why
            continue
        out[name] = list(values)[: min(MOST_VALUES, room)]
        room -= len(out[name])
        if len(out[name]) < len(values):
            left_out[f"{name}, further values"] = f"{len(values) - len(out[name]):,} values with fewer cases"
    return {name: values for name, values in out.items() if values}


def _too_few(name: str, values: Mapping[str, int]) -> str:
    """Return why a column that was not asked for is not worth slicing by; ``""`` if it is."""
    if name == LANGUAGE:
        several = sum(n >= LEAST_CASES for n in values.values()) > 1
        return "" if several else f"fewer than two languages have {count(LEAST_CASES, 'case')} or more"
    if len(values) < 2:
        return "it has one value"
    if name in BUILT_IN or sum(values.values()) >= LEAST_ON_AVERAGE * len(values):
        return ""
    return f"its {len(values)} values have fewer than {LEAST_ON_AVERAGE} cases on average"


def _choose(connection: DuckDBPyConnection, values: Mapping[str, Sequence[str]]) -> None:
    pairs = [(name, value) for name, found in values.items() for value in found]
    if pairs:
        columns, chosen = zip(*pairs, strict=True)
        with lines_shown(connection, "chosen", {"slice_column": columns, "slice_value": chosen}):
            connection.execute(sql("slices/slice_rows"))
    connection.execute("DROP TABLE candidates")


def in_words(column: str, value: str) -> str:
    """Return the rows of a slice in words: "rows of category tides", "questions of 6 to 10 words".

    Args:
        column: Name of the column.
    """
    value = one_line(value)
    return {
        "category": f"rows of category {value}",
        LANGUAGE: f"questions in language {value}",
        "question_length": f"questions of {value}",
        PERTURBATION: "unperturbed questions" if value == "none" else f"questions perturbed by {value}",
        RETRIEVAL: _RETRIEVED.get(value, value),
    }.get(column, f"rows with {one_line(column)} = {value}")
