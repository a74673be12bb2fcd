"""The values of a column as Python has them."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import pyarrow as pa

Column: TypeAlias = "list[Any] | pa.Array"
"""Values of a column, ``None`` where it is absent: those of JSON as they were decoded, those of a table in Arrow."""


class Unclear(Exception):
    """Records that are to be read one at a time."""


def values_of(column: Column) -> list[Any]:
    """Return the values of a column as Python has them; equal texts of an Arrow dictionary are one object.

    Raises:
        Unclear: Python cannot have them: a text is no UTF-8, a date is out of range, a time zone is unknown.
    """
    if isinstance(column, list):
        return column
    try:
        if pa.types.is_dictionary(column.type):
            values = column.dictionary.to_pylist()
            return [None if index is None else values[index] for index in column.indices.to_pylist()]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Encountered key")  # of a map the last value of a key counts
            result: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError, LookupError) as error:
        raise Unclear(str(error)) from error
    return result
