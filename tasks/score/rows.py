"""Reading rows to score: only those that are wanted, only the fields that some evaluator reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from leadline.evaluators.core import Evaluator
from leadline.evaluators.data import ContextChunk as ContextChunk
from leadline.evaluators.data import MadeCall, RivalAnswer, Row, RowField
from leadline.tasks.db import OF_CONVERSATIONS, attach_dataset, connect, literal, sql

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_COLUMNS: Final[dict[RowField, str]] = {
    RowField.QUESTION: "if(rows.unit = 'turn', rows.question, cases.question) AS question",
    RowField.EXPECTED_ANSWER: (
        "if(rows.unit = 'turn', rows.expected_answers, cases.expected_answers) AS expected_answers"
    ),
    RowField.RETRIEVED_CONTEXT: "rows.retrieved_context",
    RowField.RETRIEVED_DOCUMENTS: "rows.retrieved_context",
    RowField.ACTUAL_ANSWER: "rows.actual_answer",
    RowField.CONDITION: "cases.condition",
    RowField.CATEGORIES: "cases.categories",
    RowField.EXPECTED_DOCUMENTS: "cases.expected_documents",
    RowField.METADATA: "cases.metadata AS case_metadata, rows.metadata AS row_metadata",
    RowField.EXPECTED_ANNOTATIONS: "cases.expected_annotations",
    RowField.PREDICTED_ANNOTATIONS: "rows.predicted_annotations",
    RowField.DURATION_S: "rows.duration_s",
    RowField.COST_USD: "rows.cost_usd",
    RowField.INPUT_TOKENS: "rows.input_tokens",
    RowField.OUTPUT_TOKENS: "rows.output_tokens",
    RowField.ORIGINAL_ANSWER: "original.actual_answer AS original_answer",
    RowField.RIVAL_ANSWERS: "rivals.rival_answers",
    RowField.MESSAGES: "talks.messages",
    RowField.HISTORY: "talks.history",
    RowField.TOOL_CALLS: "talks.tool_calls",
    RowField.TOOLS: "talks.tools",
    RowField.STEPS: "talks.steps",
    RowField.EXPECTED_TOOL_CALLS: "talks.expected_tool_calls",
    RowField.EXPECTED_OUTCOME: "talks.expected_outcome",
    RowField.SCENARIO: "talks.scenario",
}


_TRIALS: Final = 256
"""Trials that a number of an evaluator is apart from the next, where both are in one number."""


class NeededRows(NamedTuple):
    """A batch of rows, and the scores that they need.

    Attributes:
        rows: In the order of the dataset.
        keys: The keys of the scores, by evaluator number and trial, and the places of their rows among ``rows``.
    """

    rows: Sequence[Row]
    keys: Mapping[tuple[int, int], tuple[Sequence[bytes], Sequence[int]]]

    def of(self, evaluator_id: int, trial: int) -> tuple[Sequence[bytes], Sequence[Row]]:
        """Return the rows that need scores of one evaluator in one trial, after the keys of these."""
        keys, places = self.keys.get((evaluator_id, trial), ((), ()))
        return keys, self.rows if len(places) == len(self.rows) else [self.rows[place] for place in places]


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """Rows of a dataset with what of them is to compute: a window of one lane's rows.

    Attributes:
        dataset: Folder of the loaded dataset.
        pairs: Parquet file of what is to compute: ``row_id, evaluator_id, trial, key``.
        first: First row.
        last: Last row, inclusive.
    """

    dataset: Path
    pairs: Path
    first: int
    last: int

    def evaluators(self) -> set[int]:
        """Return the numbers of the evaluators that have something to compute here."""
        with connect(threads=1) as connection:
            found = connection.execute(
                f"SELECT DISTINCT evaluator_id FROM read_parquet({literal(self.pairs)}) WHERE row_id BETWEEN ? AND ?",
                [self.first, self.last],
            ).fetchall()
        return {evaluator_id for (evaluator_id,) in found}


def read_planned(rows: PlannedRows, fields: Sequence[RowField], *, batch: int) -> Iterator[NeededRows]:
    """Yield planned rows in batches."""
    import numpy as np

    from leadline.tasks.ground.arrow_arrays import numpy_of

    pairs, window = literal(rows.pairs), {"first": rows.first, "last": rows.last}
    joins = _joins(fields, f"BETWEEN {rows.first:d} AND {rows.last:d}")
    statement = sql("rows/chunk").format(columns=_columns(fields), pairs=pairs, joins=joins)
    with connect(threads=1) as connection:
        attach_dataset(connection, rows.dataset)
        needed = connection.sql(sql("rows/needed").format(pairs=pairs), params=window).to_arrow_table()
        row_ids, scores = (numpy_of(needed[name].combine_chunks()) for name in ("row_id", "score"))
        for record_batch in connection.sql(statement, params=window).to_arrow_reader(batch):
            ids = numpy_of(record_batch.column("row_id"))
            first, end = np.searchsorted(row_ids, [ids[0], int(ids[-1]) + 1]).tolist()
            keys = needed["key"].slice(first, end - first).to_pylist()
            places = np.searchsorted(ids, row_ids[first:end])
            yield NeededRows(_rows_of(_columns_of(record_batch)), _by_score(scores[first:end], keys, places))


def _by_score(
    scores: npt.NDArray[np.uint32], keys: Sequence[bytes], places: npt.NDArray[np.intp]
) -> dict[tuple[int, int], tuple[list[bytes], list[int]]]:
    """Return the keys and places of rows by evaluator number and trial, which are one number in ``scores``."""
    found = {}
    for score in sorted(set(scores.tolist())):
        mine = (scores == score).nonzero()[0]
        found[divmod(score, _TRIALS)] = ([keys[place] for place in mine.tolist()], places[mine].tolist())
    return found


def read_rows(
    dataset: Path, row_ids: Sequence[int] | None = None, fields: Collection[RowField] = tuple(_COLUMNS)
) -> list[Row]:
    """Return rows of a small dataset, in its order."""
    statement = sql("rows/all").format(columns=_columns(fields), joins=_joins(fields, ">= 0"))
    with connect(threads=1) as connection:
        attach_dataset(connection, dataset)
        reader = connection.sql(statement, params={"rows": row_ids}).to_arrow_reader(1_000)
        return [row for batch in reader for row in _rows_of(_columns_of(batch))]


def reduced(row: Row, fields: Collection[RowField]) -> Row:
    """Return a row with some of its fields only."""
    names = {"case", "model", *(field.attribute for field in fields)}
    return Row(**{name: getattr(row, name) for name in names})


def missing_inputs(evaluator: Evaluator, row: Row) -> list[RowField]:
    """Return the inputs that an evaluator requires and a row lacks."""
    return [field for field in evaluator.required if getattr(row, field.attribute) in (None, ())]


def _columns(fields: Collection[RowField]) -> str:
    return ", ".join(dict.fromkeys(_COLUMNS[field] for field in fields)) or "NULL AS nothing"


def _joins(fields: Collection[RowField], row_ids: str) -> str:
    """Return the joins that bring the answers to originals and those of other models, where they are read.

    Args:
        row_ids: The condition that the ids of the rows meet.
    """
    joins = [sql("rows/talks")] if OF_CONVERSATIONS.intersection(fields) else []
    if RowField.ORIGINAL_ANSWER in fields:
        joins.append(sql("rows/original").format(originals=sql("field_digests/originals")))
    if RowField.RIVAL_ANSWERS in fields:
        joins.append(sql("rows/rivals").format(row_ids=row_ids))
    return "\n".join(joins)


def _columns_of(batch: pa.RecordBatch) -> dict[str, Sequence[Any]]:
    return {name: _values(batch.column(name)) for name in batch.schema.names}


def _values(column: pa.Array) -> Sequence[Any]:
    """Return a column's values; lists of structures as lists of tuples, which Arrow is slow to make dictionaries of."""
    import pyarrow as pa

    from leadline.tasks.ground.arrow_arrays import numpy_of

    if not (pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)):
        values: list[Any] = column.to_pylist()
        return values
    items = list(zip(*(part.to_pylist() for part in column.flatten().flatten()), strict=True))
    ends = numpy_of(column.offsets).tolist()
    return [items[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]


def row_of(line: Mapping[str, Any]) -> Row:
    """Return a row from the columns that datasets have of it; any but the keys of case and model may be absent.

    Lists of structures, as contexts are, are lists of tuples.
    """
    [row] = _rows_of({name: [value] for name, value in line.items()})
    return row


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Return rows from their columns, of which :func:`row_of` says what there can be."""
    given = {
        name: list(map(_MADE[name], columns[name])) if name in _MADE else columns[name]
        for name in Row.__dataclass_fields__.keys() & columns.keys()
    }
    if "case_metadata" in columns:
        given["metadata"] = list(map(_metadata, columns["case_metadata"], columns["row_metadata"]))
    names = ("case", "model", *given)
    lines = zip(columns["case_key"], columns["model_key"], *given.values(), strict=True)
    return [Row.with_fields(dict(zip(names, line, strict=True))) for line in lines]


def _parsed(text: str | None) -> Any:
    """Return JSON, which loading has brought into the one form of its field."""
    return None if text is None else orjson.loads(text)


def _said(text: str | None) -> Any:
    return () if text is None else orjson.loads(text)


def _calls(text: str | None) -> list[MadeCall] | None:
    return None if text is None else [MadeCall(**call) for call in orjson.loads(text)]


def _texts(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


_MADE: Final[dict[str, Callable[[Any], Any]]] = {
    "expected_answers": _texts,
    "retrieved_context": lambda chunks: tuple(starmap(ContextChunk, chunks or ())),
    "categories": _texts,
    "expected_documents": _texts,
    "expected_annotations": _parsed,
    "predicted_annotations": _parsed,
    "rival_answers": lambda rivals: tuple(starmap(RivalAnswer, rivals or ())),
    "messages": _said,
    "history": _said,
    "tool_calls": _calls,
    "tools": _parsed,
    "steps": _parsed,
    "expected_tool_calls": _parsed,
    "scenario": _parsed,
}
"""What makes a row's attribute of a column's value, where it is another."""


def _metadata(*texts: str | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for text in texts:
        if text:
            out |= orjson.loads(text)
    return out
