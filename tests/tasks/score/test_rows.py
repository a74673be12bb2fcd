"""Rows as they are read to be scored."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from leadline.evaluators.data import ContextChunk, RivalAnswer, Row
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.score.rows import read_rows, row_of
from leadline.tasks.store.store import Store


def test_fields_that_are_not_given_have_the_constructors_defaults() -> None:
    made = Row.with_fields({"case": "a", "model": "m", "question": "q"})
    assert made == Row("a", "m", question="q")
    assert {field.name: getattr(made, field.name) for field in fields(Row)}["metadata"] == {}
    assert Row.with_fields({"case": "a", "model": "m"}).metadata is not made.metadata


@pytest.mark.parametrize("chunks", [None, [], [("one", "a.txt"), ("two", None)]])
def test_a_line_of_a_dataset_is_a_row(chunks: list[tuple[str, str | None]] | None) -> None:
    line = {"case_key": "a", "model_key": "m", "retrieved_context": chunks, "rival_answers": [("n", "yes")]}
    metadata = {"case_metadata": '{"a": 1, "b": 1}', "row_metadata": '{"b": 2}'}
    wanted = Row(
        "a",
        "m",
        retrieved_context=tuple(ContextChunk(*chunk) for chunk in chunks or ()),
        rival_answers=(RivalAnswer("n", "yes"),),
        metadata={"a": 1, "b": 2},
    )
    assert row_of(line | metadata | {"messages": None, "tools": None}) == wanted


def test_each_row_has_its_own_chunks_where_some_have_none(store: Store) -> None:
    contexts = [["a", "b"], [], ["c"], [], ["d", "e", "f"]]
    lines = [
        {"case": f"c{number}", "model": "m", "actual_answer": "x", "retrieved_context": context}
        for number, context in enumerate(contexts)
    ]
    file = store.root / "rows.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset = store.dataset(load_dataset(store, file).digest)
    found = [[chunk.content for chunk in row.retrieved_context] for row in read_rows(dataset)]
    assert found == contexts
    assert [[c.content for c in row.retrieved_context] for row in read_rows(dataset, [2, 4])] == [
        contexts[2],
        contexts[4],
    ]
