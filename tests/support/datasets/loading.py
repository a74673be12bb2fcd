"""Files to load, and what became of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError
from leadline.tasks.db import DATASET_TABLES, attach_dataset
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store

Tables = dict[str, list[dict[str, Any]]]


def load(folder: Path, name: str, content: Any, **options: Any) -> LoadedDataset:
    """Write a file and load it; content that is no text is written as JSON."""
    return load_dataset(Store.open(folder / "store"), write(folder, name, content), **options)


def write(folder: Path, name: str, content: Any) -> Path:
    """Write a file into a folder."""
    path = folder / name
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def faults(folder: Path, name: str, content: Any, **options: Any) -> list[str]:
    """Return the faults for which a file is refused, without the file's name; nothing may have been written."""
    path = write(folder, name, content)
    store = Store.open(folder / "store")
    with pytest.raises(DatasetError) as refused:
        load_dataset(store, path, **options)
    assert not list(store.root.glob("datasets/*"))
    assert not list(store.root.glob("staging/*"))
    assert refused.value.exit_code == 2
    assert all(fault.file == str(path) for fault in refused.value.faults)
    return [str(fault).removeprefix(str(path)).lstrip(", :") for fault in refused.value.faults]


def tables(loaded: LoadedDataset) -> Tables:
    """Return all lines of all tables of a loaded dataset."""
    with duckdb.connect() as connection:
        attach_dataset(connection, loaded.path)
        out = {}
        for table in DATASET_TABLES:
            lines = connection.table(table).to_arrow_table().to_pylist()
            out[table] = lines
        return out


def rows(loaded: LoadedDataset) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every row with its case's columns, by case and model."""
    found = tables(loaded)
    cases = {case["case_id"]: case for case in found["cases"]}
    models = {model["model_id"]: model["model_key"] for model in found["models"]}
    out = {}
    for row in found["rows"]:
        case = cases[row["case_id"]]
        merged = json.loads(case["metadata"]) | json.loads(row["metadata"])
        out[case["case_key"], models[row["model_id"]]] = {**case, **row, "metadata": merged}
    return out


def as_jsonl(records: Sequence[dict[str, Any]]) -> bytes:
    """Return records as JSON Lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def as_csv(records: Sequence[dict[str, Any]], *, delimiter: str = ",") -> bytes:
    """Return records as CSV: lists and objects as JSON, absent values as empty cells, empty texts in quotes."""
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerow(names)
    for record in records:
        cells = io.StringIO(newline="")
        csv.writer(cells, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow([_cell(record.get(n)) for n in names])
        # The csv module of Python 3.11 cannot leave an absent cell unquoted: a marker stands in for it.
        out.write(cells.getvalue().replace(f'"{_ABSENT}"', ""))
    return out.getvalue().encode()


_ABSENT = "\x1a\x1a"


def _cell(value: Any) -> str:
    if value is None:
        return _ABSENT
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def as_parquet(records: Sequence[dict[str, Any]], folder: Path) -> bytes:
    """Return records as Parquet."""
    path = folder / "made.parquet"
    names = list(dict.fromkeys(name for record in records for name in record))
    parquet.write_table(pa.Table.from_pylist([{n: r.get(n) for n in names} for r in records]), path)
    return path.read_bytes()
