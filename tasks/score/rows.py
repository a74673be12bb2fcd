"""Reading the rows of a chunk: only those rows, only the fields that some evaluator of the chunk reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import orjson

from leadline.evaluators.data.annotations import Annotations
from leadline.evaluators.data.row import ContextChunk as ContextChunk
from leadline.evaluators.data.row import RivalAnswer, Row, RowField
from leadline.tasks.db.connection import attach_dataset, connect, literal
from leadline.tasks.db.statements import sql

_COLUMNS: Final[dict[RowField, str]] = {
    RowField.QUESTION: "cases.question",
    RowField.EXPECTED_ANSWER: "cases.expected_answers",
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
}


class NeededRow(NamedTuple):
    """A row and the keys of the scores that it needs, by evaluator number and trial."""

    row: Row
    keys: dict[tuple[int, int], bytes]


def read_chunk(
    dataset: Path, pairs: Path, first: int, last: int, fields: Sequence[RowField], *, batch: int
) -> Iterator[list[NeededRow]]:
    """Yield the rows of a chunk in batches.

    Args:
        dataset: Folder of the loaded dataset.
        pairs: Parquet file of what is to compute: ``row_id, evaluator_id, trial, key``.
        first: First row of the chunk.
        last: Last row of the chunk.
        fields: The fields to fill in.
        batch: Most rows per batch.
    """
    columns = dict.fromkeys(_COLUMNS[field] for field in fields)
    statement = sql("rows/chunk").format(
        columns=", ".join(columns) or "NULL AS nothing",
        pairs=literal(pairs),
        joins=_joins(fields, f"BETWEEN {first:d} AND {last:d}"),
    )
    with connect(threads=1) as connection:
        attach_dataset(connection, dataset)
        reader = connection.sql(statement, params=[first, last, first, last]).to_arrow_reader(batch)
        for record_batch in reader:
            yield [_needed(line) for line in record_batch.to_pylist()]


def read_rows(dataset: Path) -> list[Row]:
    """Return all rows of a small dataset, with all fields."""
    columns = ", ".join(dict.fromkeys(_COLUMNS.values()))
    with connect(threads=1) as connection:
        attach_dataset(connection, dataset)
        reader = connection.sql(
            sql("rows/all").format(columns=columns, joins=_joins(_COLUMNS, ">= 0"))
        ).to_arrow_reader(1_000)
        return [_needed(line | {"jobs": []}).row for batch in reader for line in batch.to_pylist()]


def _joins(fields: Collection[RowField], row_ids: str) -> str:
    """Return the joins that bring the answers to originals and those of other models, where they are read.

    Args:
        fields: The fields that are read.
        row_ids: The condition that the ids of the rows meet.
    """
    joins = []
    if RowField.ORIGINAL_ANSWER in fields:
        joins.append(sql("rows/original").format(originals=sql("rows/originals")))
    if RowField.RIVAL_ANSWERS in fields:
        joins.append(sql("rows/rivals").format(row_ids=row_ids))
    return "\n".join(joins)


def needed_evaluators(pairs: Path, first: int, last: int) -> set[int]:
    """Return the numbers of the evaluators that have something to compute in a chunk.

    Args:
        pairs: Parquet file of what is to compute.
        first: First row of the chunk.
        last: Last row of the chunk, inclusive.
    """
    with connect(threads=1) as connection:
        found = connection.execute(
            f"SELECT DISTINCT evaluator_id FROM read_parquet({literal(pairs)}) WHERE row_id BETWEEN ? AND ?",
            [first, last],
        ).fetchall()
    return {evaluator_id for (evaluator_id,) in found}


def _needed(line: dict[str, Any]) -> NeededRow:
    return NeededRow(
        Row(
            case=line["case_key"],
            model=line["model_key"],
            question=line.get("question"),
            expected_answers=tuple(line.get("expected_answers") or ()),
            retrieved_context=tuple(
                ContextChunk(chunk["content"], chunk["doc_uri"]) for chunk in (line.get("retrieved_context") or ())
            ),
            actual_answer=line.get("actual_answer"),
            condition=line.get("condition"),
            categories=tuple(line.get("categories") or ()),
            expected_documents=tuple(line.get("expected_documents") or ()),
            metadata=_metadata(line),
            expected_annotations=_parsed(line.get("expected_annotations")),
            predicted_annotations=_parsed(line.get("predicted_annotations")),
            duration_s=line.get("duration_s"),
            cost_usd=line.get("cost_usd"),
            input_tokens=line.get("input_tokens"),
            output_tokens=line.get("output_tokens"),
            original_answer=line.get("original_answer"),
            rival_answers=tuple(
                RivalAnswer(rival["model"], rival["answer"]) for rival in (line.get("rival_answers") or ())
            ),
        ),
        {(job["evaluator_id"], job["trial"]): job["key"] for job in line["jobs"]},
    )


def _parsed(text: str | None) -> Annotations | None:
    """Return annotations, which loading has brought into their one form."""
    return None if text is None else cast("Annotations", orjson.loads(text))


def _metadata(line: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("case_metadata", "row_metadata"):
        if line.get(name):
            out |= orjson.loads(line[name])
    return out
