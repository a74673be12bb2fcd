"""Arrow arrays of plain Python values and of NumPy's numbers, and NumPy's of Arrow's.

They are made of buffers: ``pyarrow.array``, ``pyarrow.scalar`` and ``to_numpy`` import pandas, which takes longer than
loading a small file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_STRING: Final = pa.string()
_LARGE_STRING: Final = pa.large_string()
_BINARY: Final = pa.binary()


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values in Arrow; ``None`` is null.

    Args:
        values: Texts, bytes, numbers or truth values.

    Raises:
        TypeError: Among texts is something else.
        UnicodeEncodeError: A text has half a surrogate pair.
        OverflowError: A number, or the bytes of all texts of a type that is not large, are beyond the type.
    """
    size = len(values)
    missing = values.count(None)
    if size and missing == size:
        return pa.nulls(size, kind)
    present = np.fromiter((value is not None for value in values), np.bool_, size) if missing else None
    nulls = None if present is None else _bits(present)
    if kind in (_STRING, _LARGE_STRING):
        ends, content = _joined(values if nulls is None else ["" if value is None else value for value in values])
        fitting = ends if kind == _LARGE_STRING else _narrow(ends)
        return pa.Array.from_buffers(kind, size, [nulls, pa.py_buffer(fitting), pa.py_buffer(content)])
    if kind == _BINARY:
        contents = [b"" if value is None else value for value in values]
        ends = _narrow(_ends(np.fromiter(map(len, contents), np.int64, size)))
        return pa.Array.from_buffers(kind, size, [nulls, pa.py_buffer(ends), pa.py_buffer(b"".join(contents))])
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, size, [nulls, _bits(np.fromiter(map(bool, values), np.bool_, size))])
    given = values if nulls is None else (0 if value is None else value for value in values)
    return pa.Array.from_buffers(kind, size, [nulls, pa.py_buffer(np.fromiter(given, kind.to_pandas_dtype(), size))])


def table_of(columns: Mapping[str, tuple[Sequence[Any], str]]) -> pa.Table:
    """Return columns as a table: of each the values, and the name of their type in Arrow."""
    return pa.table({name: array_of(values, getattr(pa, kind)()) for name, (values, kind) in columns.items()})


def scalar_of(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a text, a number or a truth value in Arrow."""
    return array_of([value], kind)[0]


def numbers_of(values: Any) -> pa.Array:
    """Return integers or floats of NumPy's in Arrow."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def numpy_of(numbers: pa.Array) -> Any:
    """Return numbers without a null as an array of NumPy's."""
    first = numbers.offset
    return np.frombuffer(numbers.buffers()[1], numbers.type.to_pandas_dtype())[first : first + len(numbers)]


def lists_of(lengths: Any, elements: pa.Array, *, empty: bool = False) -> pa.Array:
    """Return lists of some lengths.

    Args:
        lengths: Integers of NumPy's.
        empty: Whether lists without elements are empty; otherwise they are null.
    """
    nulls = None if empty or np.all(lengths) else _bits(lengths != 0)
    kind = pa.large_list(elements.type)
    return pa.Array.from_buffers(kind, len(lengths), [nulls, pa.py_buffer(_ends(lengths))], children=[elements])


def _joined(texts: Sequence[str]) -> tuple[Any, bytes]:
    """Return where texts begin and end in their bytes, and these."""
    joined = "".join(texts)
    lengths = map(len, texts if joined.isascii() else map(str.encode, texts))
    return _ends(np.fromiter(lengths, np.int64, len(texts))), joined.encode()


def _ends(lengths: Any) -> Any:
    """Return where texts or lists of some lengths begin and end, as Arrow has it: 0, then the end of each."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _narrow(ends: Any) -> Any:
    """Return ends as types have them that are not large."""
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("the texts of one array have more than 2 GiB")
    return ends.astype(np.int32)


def _bits(truths: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
