"""Conversations in files that other tools export: the same, however the records stand there."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pyarrow import parquet

from leadline.evaluators.data import calls_of, turns_of
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.plugins.traces.tests.test_exports import broken
from leadline.plugins.traces.tests.test_redrawn_samples import redrawn
from leadline.plugins.traces.trace_format import Traces
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.source import SourceFile

EXPORTS: Final = Path(__file__).parent / "exports"
FLAT: Final = "spans_flat.parquet"
"""Of the samples, by OpenInference."""


class Numbers(NamedTuple):
    """What a conversation has."""

    messages: int
    turns: int
    calls: int
    results: int
    contexts: int
    steps: int


FILES: Final = {
    "langfuse_langgraph.json": Numbers(messages=5, turns=1, calls=1, results=1, contexts=0, steps=9),
    "langfuse_openai_agents.json": Numbers(messages=5, turns=1, calls=1, results=1, contexts=0, steps=5),
    "langfuse_pydantic_ai.json": Numbers(messages=11, turns=3, calls=4, results=3, contexts=0, steps=12),
    "langsmith_runs.jsonl": Numbers(messages=4, turns=1, calls=1, results=1, contexts=1, steps=4),
    "mlflow_trace_v3.json": Numbers(messages=4, turns=1, calls=1, results=1, contexts=1, steps=4),
    FLAT: Numbers(messages=5, turns=1, calls=1, results=1, contexts=1, steps=5),
}


def numbers(found: Conversation) -> Numbers:
    turns, calls = turns_of(found.messages), calls_of(found.messages)
    return Numbers(
        messages=len(found.messages),
        turns=len(turns),
        calls=len(calls),
        results=sum(call.result is not None for call in calls),
        contexts=sum(len(turn.retrieved_context) for turn in turns),
        steps=len(found.steps or ()),
    )


def only(path: Path) -> Conversation:
    counts = TraceCounts()
    (found,) = conversations([path], counts=counts)
    assert (counts.malformed, counts.pending, counts.not_captured, counts.unmatched) == (0, 0, 0, 0)
    return found


def path_of(name: str) -> Path:
    return EXPORTS.parent / "samples" / "openinference" / name if name == FLAT else EXPORTS / name


def text_of(name: str) -> str:
    return (EXPORTS / name).read_text(encoding="utf-8")


def written(folder: Path, content: str | list[Any], name: str = "export.jsonl") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else "".join(json.dumps(each) + "\n" for each in content))
    return path


@pytest.mark.parametrize(("name", "expected"), FILES.items())
def test_an_export_is_one_conversation(name: str, expected: Numbers) -> None:
    assert numbers(only(path_of(name))) == expected


def test_observations_give_one_conversation_in_any_order_and_packing(tmp_path: Path) -> None:
    record = json.loads(text_of("langfuse_pydantic_ai.json"))
    expected = replace(only(EXPORTS / "langfuse_pydantic_ai.json"), metadata={})
    observations = record["observations"]
    shuffled = random.Random(3).sample(observations, len(observations))
    pages = {"data": observations, "meta": {"page": 1}}
    contents = [
        json.dumps(record, indent=1),
        json.dumps(observations),
        json.dumps(pages, indent=1),
        [pages],
        observations,
    ]
    for content in contents:
        assert replace(only(written(tmp_path, content)), metadata={}) == expected
    for content in ([record | {"observations": shuffled}], observations[::-1]):
        # Steps that began in the same millisecond stand in the order of the file.
        assert replace(only(written(tmp_path, content)), metadata={}, steps=expected.steps) == expected


def test_traces_of_one_session_are_turns_of_one_conversation(tmp_path: Path) -> None:
    first = json.loads(text_of("langfuse_openai_agents.json"))
    second = json.loads(redrawn(text_of("langfuse_openai_agents.json"), random.Random(1)))
    alone = list(conversations([written(tmp_path, [first, second])]))
    assert [numbers(each).turns for each in alone] == [1, 1]
    for each in (first, second):
        each["trace"]["sessionId"] = "s1"
    (together,) = conversations([written(tmp_path, [second, first])])
    assert (together.key, numbers(together).turns, numbers(together).calls) == ("s1", 2, 2)


def test_a_trace_without_an_end_is_counted_and_not_loaded(tmp_path: Path) -> None:
    runs = [json.loads(line) for line in text_of("langsmith_runs.jsonl").splitlines()]
    runs[0]["end_time"] = None
    counts = TraceCounts()
    assert not list(conversations([written(tmp_path, runs)], counts=counts))
    assert (counts.spans, counts.pending, counts.conversations) == (4, 1, 0)


def test_content_that_was_not_captured_is_counted(tmp_path: Path) -> None:
    record = json.loads(text_of("langfuse_openai_agents.json"))
    for each in record["observations"]:
        each["input"] = each["output"] = None
    counts = TraceCounts()
    assert not list(conversations([written(tmp_path, [record])], counts=counts))
    assert (counts.not_captured, counts.empty) == (3, 1)


def test_records_of_several_tools_and_of_none_may_stand_in_one_file(tmp_path: Path) -> None:
    records = [json.loads(text_of(name)) for name in ("langfuse_langgraph.json", "mlflow_trace_v3.json")]
    counts = TraceCounts()
    content = "\n".join(map(json.dumps, [*records, {"question": "?"}, 7])) + "\n{broken\n"
    found = list(conversations([written(tmp_path, content)], counts=counts))
    assert [each.key for each in found] == ["demo-thread-1", "conv-lisbon-1"]
    assert counts.malformed == 3


def test_a_column_of_traces_in_an_evaluation_set_is_read(tmp_path: Path) -> None:
    trace = json.loads(text_of("mlflow_trace_v3.json"))
    row = {"request_id": "1", "request": {"messages": [{"role": "user", "content": "How high is the tide?"}]}}
    expected = only(EXPORTS / "mlflow_trace_v3.json")
    assert only(written(tmp_path, json.dumps([row | {"trace": trace}], indent=1))) == expected
    assert only(written(tmp_path, [row | {"trace": json.dumps(trace)}])) == expected
    assert only(written(tmp_path, json.dumps({"traces": [trace]}))) == expected


@pytest.mark.parametrize("name", [name for name in FILES if name != FLAT])
def test_an_export_is_recognised_as_traces_by_its_first_bytes(name: str) -> None:
    assert Traces.reads(SourceFile.at(path_of(name)))


def test_other_files_are_none_of_traces(tmp_path: Path) -> None:
    trace = json.loads(text_of("mlflow_trace_v3.json"))
    row = {"request": "How high?", "response": "5.4 m", "trace": trace}
    coco = {"info": {"description": "boats"}, "images": [], "annotations": []}
    for content in ([row], json.dumps([row]), json.dumps(coco, indent=1), [{"question": "?", "answer": "!"}]):
        assert not Traces.reads(SourceFile.at(written(tmp_path, content)))
    snake = {"trace_id": "t", "id": "a", "type": "SPAN", "parent_observation_id": None}
    for content in ([snake], json.dumps([trace], indent=2), json.dumps({"traces": [trace]})):
        assert Traces.reads(SourceFile.at(written(tmp_path, content)))


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as an object around objects and lists, as Phoenix' service returns them."""
    root: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        at = root
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return {name: as_lists(value) for name, value in root.items()}


def as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: as_lists(each) for name, each in value.items()}
    return list(inner.values()) if inner and all(name.isdecimal() for name in inner) else inner


def test_spans_in_tables_of_all_kinds_give_one_conversation(tmp_path: Path) -> None:
    lines = parquet.read_table(path_of(FLAT)).to_pylist()
    expected = only(path_of(FLAT))
    inside = [nested(json.loads(line["attributes"])) for line in lines]
    ids = [{"trace_id": line["context.trace_id"], "span_id": line["context.span_id"]} for line in lines]
    assert only(written(tmp_path, lines)) == expected
    objects = [line | {"attributes": each} for line, each in zip(lines, inside, strict=True)]
    assert only(written(tmp_path, objects)) == expected
    columns = []
    for line, each in zip(lines, inside, strict=True):
        named = {f"attributes.{outer}.{name}": value for outer, its in each.items() for name, value in its.items()}
        columns.append({name: value for name, value in line.items() if name != "attributes"} | named)
    assert only(written(tmp_path, columns)) == expected
    served = [{**line, "context": id_, "attributes": each} for line, id_, each in zip(lines, ids, inside, strict=True)]
    for line in served:
        del line["context.trace_id"], line["context.span_id"]
    assert only(written(tmp_path, json.dumps({"data": served}))) == expected
    with (tmp_path / "spans.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(lines)
    assert only(tmp_path / "spans.csv") == expected


@pytest.mark.parametrize("name", [name for name in FILES if name != FLAT])
def test_absurd_values_anywhere_cost_no_more_than_what_they_stand_in(tmp_path: Path, name: str) -> None:
    lines = text_of(name).splitlines() if name.endswith("l") else [text_of(name)]
    given = list(map(json.loads, lines))
    counts = TraceCounts()
    for seed in range(8):
        chance = random.Random(seed)
        path = written(tmp_path, [broken(record, chance) for record in given])
        for found in conversations([path], counts=counts):
            assert numbers(found).messages
    assert counts.spans > 8
