"""Data that a program holds becomes a file of a dataset, which is then loaded like any other.

Tables (pandas, polars, Arrow, Hugging Face) become Parquet, lists of records JSON Lines. Libraries are recognised by
what their objects can do, and none is imported for it. Columns have the names that files may have.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError, ErrorCode, Fault, UsageError

Data: TypeAlias = Any
"""What can be evaluated: a path, a table of pandas, polars, Arrow or Hugging Face, a list of records, columns by name,
or a dataset of ragas or deepeval."""

DEFAULT_NAME: Final = "answers"
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 80
_ENOUGH: Final = 20
"""Faults that a refusal lists."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A file of a dataset.

    Attributes:
        shown: What it is for the user, in messages and records: the path that was given, or "the DataFrame".
        is_own: Whether the user's data was written to it, so that nobody else knows the file.
    """

    path: str
    shown: str
    is_own: bool

    def refusal(self, error: DatasetError) -> DatasetError:
        """Return an error about the file with what the user knows in the file's place."""
        if not self.is_own:
            return error
        faults = [replace(fault, file=self.shown) for fault in error.faults]
        return DatasetError(faults, more=error.more, code=error.code)


def is_path(data: Data) -> bool:
    """Return whether data is named by a path instead of being there."""
    return isinstance(data, str | os.PathLike)


def stage(data: Data, folder: Path, name: str = "", *, questions: bool = False) -> Staged:
    """Write data into a folder as a file that can be loaded; a path is taken as it is.

    Args:
        folder: Where to write it.
        name: Name of the dataset; what the data says of itself, or ``answers``, by default.
        questions: Take texts for questions.

    Raises:
        UsageError: It is nothing that can be evaluated.
        DatasetError: It holds a value that no file can hold; every fault is listed.
    """
    if is_path(data):
        return Staged(os.fspath(data), os.fspath(data), is_own=False)
    stem = _file_name(name or _own_name(data))
    shown = f"the {_what(data)}"
    table = _table_of(data)
    if table is not None:
        if not table.num_rows:
            raise _empty(shown)
        path = folder / f"{stem}.parquet"
        if _write_parquet(table, path):
            return Staged(str(path), shown, is_own=True)
        data = table.to_pylist()
    path = folder / f"{stem}.jsonl"
    records = _records_of(data)
    if questions:
        records = ({"question": each} if isinstance(each, str) else each for each in records)
    _write_records(records, path, shown)
    return Staged(str(path), shown, is_own=True)


def _what(data: Data) -> str:
    """Return what the data is called, such as ``DataFrame`` or ``list``."""
    return type(data).__name__


def _own_name(data: Data) -> str:
    """Return the name that a table carries, or ``answers``."""
    attrs = getattr(data, "attrs", None)
    if isinstance(attrs, Mapping) and isinstance(attrs.get("name"), str):
        return str(attrs["name"])
    info = getattr(getattr(data, "info", None), "dataset_name", None)
    return info if isinstance(info, str) and info else DEFAULT_NAME


def _file_name(name: str) -> str:
    return _UNSAFE.sub("-", name).strip("-.")[:_LONGEST_NAME] or DEFAULT_NAME


def _table_of(data: Data) -> pa.Table | None:
    """Return data that is a table in Arrow; ``None`` where it is none, or holds values of mixed types."""
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data
    if _is_pandas(data):
        return _from_pandas(data)
    if callable(getattr(data, "collect", None)) and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if hasattr(data, "features") and callable(getattr(data, "with_format", None)):
        return _from_hugging_face(data)
    if callable(getattr(data, "__arrow_c_stream__", None)):
        try:
            return pa.table(data)
        except (pa.ArrowException, TypeError, ValueError):
            raise _unknown(data) from None
    return None


def _is_pandas(data: Data) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns") and callable(getattr(data, "to_dict", None))


def _from_pandas(frame: Any) -> pa.Table | None:
    flat = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    flat = flat.rename(columns=str)
    _require_distinct(list(flat.columns))
    try:
        return pa.Table.from_pandas(flat, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # values of several types in a column: they are written one by one


def _require_distinct(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(
            f"The DataFrame has the column {repeated[0]!r} more than once.",
            hint="Rename one of them, or leave it out.",
            code=ErrorCode.CONFIG_CONTENT,
        )


def _from_hugging_face(dataset: Any) -> pa.Table:
    """Return a split in Arrow, with the names of its classes in place of their numbers."""
    table = dataset.with_format("arrow")[:]
    table = table if isinstance(table, pa.Table) else pa.table(table)
    for number, name in enumerate(table.column_names):
        feature = dataset.features.get(name)
        if callable(getattr(feature, "int2str", None)):
            labels = [
                None if value is None or value < 0 else feature.int2str(value) for value in table[name].to_pylist()
            ]
            table = table.set_column(number, name, pa.array(labels, pa.string()))
    return table


def _write_parquet(table: pa.Table, path: Path) -> bool:
    """Write a table, and return whether Parquet can hold it."""
    try:
        parquet.write_table(table.replace_schema_metadata(None), path, compression="zstd", store_schema=False)
    except (pa.ArrowException, NotImplementedError):
        path.unlink(missing_ok=True)
        return False
    return True


def _records_of(data: Data) -> Iterable[Any]:
    """Return the records of data that is no table."""
    if _is_pandas(data):
        records: list[dict[str, Any]] = data.to_dict("records")
        return records
    for members in ("samples", "test_cases", "goldens"):  # ragas; deepeval
        found = getattr(data, members, None)
        if isinstance(found, list | tuple) and found:
            return found
    if isinstance(data, Mapping):
        return _rows_of_columns(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return data
    raise _unknown(data)


def _unknown(data: Data) -> UsageError:
    """Return the error for data that has no records, such as a number or a single column."""
    return UsageError(
        f"{_what(data)} is nothing that can be evaluated.",
        hint="Give a DataFrame, a list of dicts, a path, or a dataset of Hugging Face, ragas or deepeval.",
        code=ErrorCode.CONFIG_CONTENT,
    )


def _rows_of_columns(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the records of columns by name."""
    lists = {str(name): column for name, column in columns.items()}
    bare = next((name for name, column in lists.items() if isinstance(column, str) or not _is_sized(column)), None)
    if bare is not None:
        more = "" if not _is_split(lists[bare]) else f" Choose one: data[{bare!r}]."
        raise UsageError(
            f"{bare!r} is no column: it has no list of values.{more}",
            hint="Give lists of one length by column, or a list of dicts.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    lengths = {name: len(column) for name, column in lists.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError(
            "The columns have different lengths: "
            + ", ".join(f"{name} {length:,}" for name, length in list(lengths.items())[:10])
            + ".",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return (dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True))


def _is_sized(column: Any) -> bool:
    return hasattr(column, "__len__") and hasattr(column, "__iter__") and not _is_split(column)


def _is_split(column: Any) -> bool:
    return hasattr(column, "features") or _is_pandas(column)


def _write_records(records: Iterable[Any], path: Path, shown: str) -> None:
    faults: list[Fault] = []
    number = 0
    with path.open("wb") as file:
        for number, record in enumerate(records, 1):
            if len(faults) >= _ENOUGH:
                break
            fields = _fields_of(record)
            if fields is None:
                faults.append(Fault(shown, number, "", f"expected an object with fields, found {_what(record)}"))
                continue
            try:
                file.write(_line(fields))
            except TypeError:
                faults += _unwritable(fields, number, shown)
    if faults:
        raise DatasetError(faults[:_ENOUGH])
    if not number:
        raise _empty(shown)


def _empty(shown: str) -> DatasetError:
    return DatasetError([Fault(shown, None, "", "it holds no records")], code=ErrorCode.DATA_UNREADABLE)


def _fields_of(record: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a record that are filled: of a mapping, a Pydantic model or a dataclass."""
    if isinstance(record, Mapping):
        return record
    dump = getattr(record, "model_dump", None)
    if callable(dump):
        return _filled(dump())
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        shallow = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        return _filled({name: value for name, value in shallow.items() if not name.startswith("_")})
    if hasattr(record, "_asdict"):
        return dict(record._asdict())
    return None


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {}, ())}


def _line(fields: Mapping[Any, Any]) -> bytes:
    return orjson.dumps(
        {str(name): value for name, value in fields.items()},
        default=_plain,
        option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE,
    )


def _plain(value: Any) -> Any:
    """Return a value of a type that JSON does not have in one that it has."""
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Decimal):
        return float(value)
    if (fields := _fields_of(value)) is not None:
        return fields
    for method in ("isoformat", "tolist", "item"):
        if callable(getattr(value, method, None)):
            return getattr(value, method)()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, int | float):  # more digits than JSON has, or a subclass
        return None if isinstance(value, float) and math.isnan(value) else str(value)
    raise TypeError


def _unwritable(fields: Mapping[Any, Any], row: int, shown: str) -> list[Fault]:
    """Return the fields of a record that no file can hold."""
    found = []
    for name, value in fields.items():
        try:
            _line({name: value})
        except TypeError:
            found.append(Fault(shown, row, str(name), _unwritable_words(value)))
    return found or [Fault(shown, row, "", "the record cannot be written to a file")]


def _unwritable_words(value: Any) -> str:
    if isinstance(value, str):
        return "a text with half a character (a lone surrogate), which no file can hold; decode it anew"
    return f"a value of type {_what(value)} cannot be written to a file; give text"
