"""CSV files that harm nobody who opens them: their texts are others' texts, and spreadsheets and terminals obey some.

A text that begins as a formula does gets an apostrophe before it, as spreadsheets write a text themselves, and control
characters are shown as pictures. Numbers stay numbers, and Parquet and JSON files are exact. ``LEADLINE_CSV=exact``, or
``text = "exact"`` in ``[csv]`` of ``leadline.toml``, writes texts as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import FILE, ErrorCode, UsageError, settings_table
from leadline.tasks.db.connection import literal, sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VARIABLE: Final = "LEADLINE_CSV"
CHOICES: Final = ("guarded", "exact")

_FORMULA: Final = "=+-@\uff1d\uff0b\uff0d\uff20"  # spreadsheets take the wide forms, too
_NUMBER: Final = r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?"
_BREAKS: Final = "\t\n\r"
_OTHERS: Final = (*range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2028, 0x2029, *range(0x2066, 0x206A))
_SHOWN: Final = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"} | dict.fromkeys(
    _OTHERS, "\ufffd"
)
"""Characters that act on a terminal or turn the direction of writing, with what is shown in their place."""

_AS_THEY_ARE: Final = frozenset(
    {"boolean", "float", "double", "decimal", "date", "time", "timestamp", "timestamp with time zone", "uuid"}
    | {f"{sign}{size}int" for sign in ("", "u") for size in ("tiny", "small", "big", "huge")}
    | {"integer", "uinteger"}
)
"""Types of DuckDB whose values are numbers, times and the like; all others may hold texts."""


def is_guarded() -> bool:
    """Return whether texts in CSV files are guarded, which they are unless somebody asked for the exact ones.

    Raises:
        UsageError: The setting has another value.
    """
    for source, value in (
        (VARIABLE, os.environ.get(VARIABLE)),
        (f"{FILE}, [csv] text", settings_table("csv", ["text"]).get("text")),
    ):
        if value not in (None, ""):
            if value not in CHOICES:
                raise UsageError(
                    f"{source}: {str(value)[:40]!r} is none of {', '.join(CHOICES)}.", code=ErrorCode.CONFIG_OPTION
                )
            return value == "guarded"
    return True


def guarded_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet calculates and no terminal obeys."""
    shown = text.replace("\r\n", "\n").translate(_SHOWN)
    formula = text.lstrip(" ")[:1] in tuple(_FORMULA) and re.fullmatch(_NUMBER, text) is None
    return f"'{shown}" if formula or text[:1] in tuple(_BREAKS) else shown


def write_csv(
    connection: DuckDBPyConnection, query: str, path: Path, values: Mapping[str, object] | None = None
) -> None:
    """Write the rows of a query as CSV; they never pass through Python."""
    if is_guarded():
        _make_guard(connection)
        query = f"SELECT {', '.join(_columns(connection, query, values))} FROM ({query})"
    connection.execute(f"COPY ({query}) TO {literal(path)} (FORMAT csv, HEADER)", dict(values or {}))


def _columns(connection: DuckDBPyConnection, query: str, values: Mapping[str, object] | None) -> list[str]:
    """Return the expressions of a query's columns, with the guard around those that may hold texts."""
    found: Any = connection.sql(query, params=dict(values)) if values else connection.sql(query)
    columns = []
    for name, kind in zip(found.columns, found.types, strict=True):
        column, heading = _quoted(name), _quoted(guarded_cell(name))
        plain = kind.id in _AS_THEY_ARE
        columns.append(f"{column if plain else f'guarded_text({column}::VARCHAR)'} AS {heading}")
    return columns


def _make_guard(connection: DuckDBPyConnection) -> None:
    """Make the macro ``guarded_text``."""
    acting = "".join(map(chr, _SHOWN))
    connection.execute("SET VARIABLE csv_acting = ?", [acting])
    connection.execute(
        sql("csv/guard").format(
            risky=f"^([{_class(_BREAKS)}]| *[{_class(_FORMULA)}])",
            number=_NUMBER,
            acting=f"[{_class(acting)}]",
            shown="".join(_SHOWN.values()),
        )
    )


def _class(characters: Iterable[str]) -> str:
    """Return what stands between the brackets of a regular expression for one of these characters."""
    return "".join(rf"\x{{{ord(character):X}}}" for character in characters)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
