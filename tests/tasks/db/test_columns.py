"""A table's class says all of its columns: definition, objects, types in pandas and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import duckdb
import pytest

from leadline.tasks.db import (
    TABLES,
    Aggregate,
    Count,
    RowId,
    Sql,
    columns_of,
    definition,
    line_of,
    read_lines,
    run_definitions,
    table,
    table_of,
)


@table("readings")
@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the gauge."""

    row_id: RowId
    depth: Annotated[float | None, "metres at low water"]
    n_pass: Annotated[Count | None, "readings that pass"]
    safe: bool
    sure: bool | None
    names: tuple[str, ...]
    reasons: Annotated[Mapping[str, Any], "JSON: why"]
    mark: Annotated[str, Sql("VARCHAR DEFAULT 'x'")]


class Spoken(Reading):
    """A reading in words."""

    @property
    def words(self) -> str:
        return f"{self.depth:.1f} m"


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(definition(Reading))
    return connection


def test_a_column_is_not_null_unless_its_type_has_none() -> None:
    assert [column.definition for column in columns_of(Reading)] == [
        "row_id UINTEGER NOT NULL",
        "depth DOUBLE",
        "n_pass UBIGINT",
        "safe BOOLEAN NOT NULL",
        "sure BOOLEAN",
        "names VARCHAR[] NOT NULL",
        "reasons VARCHAR NOT NULL",
        "mark VARCHAR DEFAULT 'x' NOT NULL",
    ]


def test_numbers_and_truths_that_may_be_missing_have_types_of_pandas_for_that() -> None:
    assert [column.pandas for column in columns_of(Reading)] == [
        "int64", "float64", "Int64", "bool", "boolean", "string", "string", "string",
    ]  # fmt: skip


def test_words_are_those_of_the_field() -> None:
    assert [column.words for column in columns_of(Reading)][:4] == ["", "metres at low water", "readings that pass", ""]


def test_lines_are_read_as_objects_in_the_order_that_was_asked_for(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("INSERT INTO readings VALUES (0, 2, 1, true, NULL, ['a'], '{\"b\": 1}', 'y')")
    connection.execute("INSERT INTO readings VALUES (1, 1, NULL, false, true, [], '[2]', 'z')")
    deep, shallow = read_lines(connection, Reading, order="depth DESC")
    assert (deep.row_id, deep.names, deep.reasons, deep.sure) == (0, ("a",), {"b": 1}, None)
    assert (shallow.row_id, shallow.names, shallow.reasons) == (1, (), {"value": [2]})
    assert read_lines(connection, Spoken, order="row_id")[0].words == "2.0 m"
    assert table_of(Spoken) == "readings"


def test_a_record_with_other_columns_too_becomes_an_object_and_one_without_a_column_does_not() -> None:
    record = {
        "row_id": 3,
        "depth": None,
        "n_pass": 1,
        "safe": True,
        "sure": None,
        "names": [],
        "reasons": "",
        "mark": "y",
    }
    assert line_of(Reading, record | {"evaluator": "bleu"}) == Reading(3, None, 1, True, None, (), {}, "y")
    del record["mark"]
    with pytest.raises(KeyError, match="mark"):
        line_of(Reading, record)


def test_every_class_of_the_module_is_made_once_and_its_table_has_its_columns() -> None:
    from leadline.tasks.db import run_tables

    classes = [kind for kind in vars(run_tables).values() if isinstance(kind, type) and hasattr(kind, "_table")]
    assert classes == list(TABLES)
    connection = duckdb.connect()
    connection.execute(run_definitions())
    for kind in TABLES:
        made = connection.execute(f"DESCRIBE {table_of(kind)}").fetchall()
        assert [name for name, *_ in made] == [column.name for column in columns_of(kind)]


def test_coverage_is_the_share_of_the_applicable_rows() -> None:
    values = dict.fromkeys((column.name for column in columns_of(Aggregate)), None)
    some = Aggregate(**values | {"n_scored": 3, "n_unscored": 1, "n_not_applicable": 6})  # type: ignore[arg-type]
    none = Aggregate(**values | {"n_scored": 0, "n_unscored": 0, "n_not_applicable": 6})  # type: ignore[arg-type]
    assert (some.coverage, none.coverage) == (0.75, None)
