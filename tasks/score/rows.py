"""Reading rows to score: only those that are wanted, only the fields that some evaluator reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from leadline.evaluators.core import Evaluator
from leadline.evaluators.data import ContextChunk as ContextChunk
from leadline.evaluators.data import MadeCall, RivalAnswer, Row, RowField
from leadline.tasks.db import OF_CONVERSATIONS, attach_dataset, connect, literal, sql

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


class NeededRow(NamedTuple):
    """A row and the keys of the scores that it needs, by evaluator number and trial."""

    row: Row
    keys: dict[tuple[int, int], bytes]


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


def read_planned(rows: PlannedRows, fields: Sequence[RowField], *, batch: int) -> Iterator[list[NeededRow]]:
    """Yield planned rows in batches."""
    statement = sql("rows/chunk").format(
        columns=_columns(fields),
        pairs=literal(rows.pairs),
        joins=_joins(fields, f"BETWEEN {rows.first:d} AND {rows.last:d}"),
    )
    with connect(threads=1) as connection:
        attach_dataset(connection, rows.dataset)
        window = [rows.first, rows.last]
        reader = connection.sql(statement, params=[*window, *window]).to_arrow_reader(batch)
        for record_batch in reader:
            yield [_needed(line) for line in record_batch.to_pylist()]


def read_rows(
    dataset: Path, row_ids: Sequence[int] | None = None, fields: Collection[RowField] = tuple(_COLUMNS)
) -> list[Row]:
    """Return rows of a small dataset, in its order."""
    statement = sql("rows/all").format(columns=_columns(fields), joins=_joins(fields, ">= 0"))
    with connect(threads=1) as connection:
        attach_dataset(connection, dataset)
        reader = connection.sql(statement, params={"rows": row_ids}).to_arrow_reader(1_000)
        return [_needed(line | {"jobs": []}).row for batch in reader for line in batch.to_pylist()]


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


def _needed(line: dict[str, Any]) -> NeededRow:
    return NeededRow(row_of(line), {(job["evaluator_id"], job["trial"]): job["key"] for job in line["jobs"]})


def row_of(line: Mapping[str, Any]) -> Row:
    """Return a row from the columns that datasets have of it; any but the keys of case and model may be absent."""
    return Row(
        case=line["case_key"],
        model=line["model_key"],
        question=line.get("question"),
        expected_answers=tuple(line.get("expected_answers") or ()),
        retrieved_context=tuple(
            ContextChunk(chunk["content"], chunk.get("doc_uri")) for chunk in (line.get("retrieved_context") or ())
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
        messages=_parsed(line.get("messages")) or (),
        history=_parsed(line.get("history")) or (),
        tool_calls=_calls(line.get("tool_calls")),
        tools=_parsed(line.get("tools")),
        steps=_parsed(line.get("steps")),
        expected_tool_calls=_parsed(line.get("expected_tool_calls")),
        expected_outcome=line.get("expected_outcome"),
        scenario=_parsed(line.get("scenario")),
    )


def _parsed(text: str | None) -> Any:
    """Return JSON, which loading has brought into the one form of its field."""
    return None if text is None else orjson.loads(text)


def _calls(text: str | None) -> list[MadeCall] | None:
    return None if text is None else [MadeCall(**call) for call in orjson.loads(text)]


def _metadata(line: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("case_metadata", "row_metadata"):
        if line.get(name):
            out |= orjson.loads(line[name])
    return out
