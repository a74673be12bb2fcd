"""What tools export in several files or tables: scores and traces apart from their spans, and columns of traces."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet

from leadline.evaluators.data import turns_of
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.plugins.traces.tests.test_exported_conversations import EXPORTS, numbers, only, text_of
from leadline.plugins.traces.tests.test_exports import broken
from leadline.tasks.load.conversation import Conversation
from tests.support.datasets.loading import load, write

LANGGRAPH: Any = json.loads(text_of("langfuse_langgraph.json"))
OBSERVATIONS: list[dict[str, Any]] = LANGGRAPH["observations"]
ID = LANGGRAPH["trace"]["id"]
MLFLOW: Any = json.loads(text_of("mlflow_trace_v3.json"))


def snake(record: dict[str, Any]) -> dict[str, Any]:
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): value for name, value in record.items()}


def as_table(path: Path, records: list[dict[str, Any]]) -> Path:
    """Write records as tools write CSV: objects and lists as JSON, nothing for null."""
    names = list(dict.fromkeys(name for record in records for name in record))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        for record in records:
            packed = {name: json.dumps(value) for name, value in record.items() if isinstance(value, dict | list)}
            table.writerow(record | packed)
    return path


def scores(**more: Any) -> list[dict[str, Any]]:
    """Return scores of the trace, of one of its spans, and of a trace that is not here."""
    common = {"projectId": "p", "timestamp": "2025-08-22 10:00:00", "observationId": None, **more}
    return [
        {"id": "1", "traceId": ID, "name": "helpful", "value": 1, "dataType": "BOOLEAN", "source": "ANNOTATION",
         "authorUserId": "ann", "comment": "yes", **common},
        {"id": "2", "traceId": ID, "name": "toxicity", "value": 0.25, "dataType": "NUMERIC", "source": "EVAL",
         **common, "observationId": OBSERVATIONS[2]["id"]},
        {"id": "3", "traceId": "gone", "name": "toxicity", "value": 0.5, "dataType": "NUMERIC", "source": "EVAL",
         **common},
    ]  # fmt: skip


def said(found: Conversation) -> tuple[list[tuple[str, float, str]], Any]:
    labels = [(label.question, label.value, label.person) for label in found.labels]
    return labels, [(each["name"], each["value"]) for each in found.metadata.get("annotations", ())]  # type: ignore


@pytest.mark.parametrize("container", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("in_snake", [False, True])
def test_scores_and_traces_in_files_of_their_own_are_joined_with_the_spans(
    tmp_path: Path, container: str, in_snake: bool
) -> None:
    trace = {"id": ID, "timestamp": "2025-08-22T10:00:00Z", "name": "LangGraph", "userId": "u1", "sessionId": "s1",
             "release": None, "tags": ["pilot"], "input": {"a": 1}, "output": None}  # fmt: skip
    for name, records in (("traces", [trace]), ("observations", OBSERVATIONS), ("scores", scores())):
        records = [snake(record) for record in records] if in_snake else records
        if container == "csv":
            as_table(tmp_path / f"{name}.csv", records)
        else:
            lines = "\n".join(map(json.dumps, records)) if container == "jsonl" else json.dumps(records, indent=1)
            (tmp_path / f"{name}.{container}").write_text(lines)
    counts = TraceCounts()
    [found] = conversations([tmp_path], counts=counts)
    assert (found.key, numbers(found)) == ("s1", numbers(only(EXPORTS / "langfuse_langgraph.json")))
    assert said(found) == ([("helpful", 1.0, "ann")], [("toxicity", 0.25)])
    assert found.metadata["userId" if not in_snake else "user_id"] == "u1"
    assert (counts.apart, counts.repeated, counts.malformed) == (1, 0, 0)


def test_a_table_of_langfuse_alone_is_recognised(tmp_path: Path) -> None:
    content = as_table(tmp_path / "observations.csv", OBSERVATIONS).read_bytes()
    loaded = load(tmp_path, "observations.csv", content)
    assert (loaded.format, loaded.rows) == ("traces", 1)
    traces = [{"id": f"t{n}", "timestamp": f"2025-08-22T10:00:0{n}Z", "release": "", "userId": "", "sessionId": "s1",
               "input": f'{{"question": "Q{n}"}}', "output": f"A{n}", "latency": 2} for n in range(3)]  # fmt: skip
    [found] = conversations([as_table(tmp_path / "traces.csv", traces)])
    assert [turn[2:4] for turn in turns_of(found.messages)] == [("Q0", "A0"), ("Q1", "A1"), ("Q2", "A2")]
    assert found.duration_s == 6


def test_traces_and_observations_in_lists_of_one_object_are_joined(tmp_path: Path) -> None:
    trace = {"id": ID, "timestamp": "2025-08-22T10:00:00Z", "release": None, "userId": "u1", "sessionId": "s1"}
    [found] = conversations([write(tmp_path, "dump.json", {"traces": [trace], "observations": OBSERVATIONS})])
    assert (found.key, numbers(found)) == ("s1", numbers(only(EXPORTS / "langfuse_langgraph.json")))


def test_a_trace_that_names_no_model_stands_beside_others_that_do(tmp_path: Path) -> None:
    of_agent = {"openinference.span.kind": "CHAIN", "input.value": "Open?", "output.value": "Yes."}
    of_model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": "Late?"}
    lines = [of_agent, {**of_model, "gen_ai.output.messages": "No."}]
    for each in (lines, lines[::-1]):
        loaded = load(tmp_path, "spans.json", json.dumps(each))
        assert (sorted(loaded.models), loaded.rows) == (["m", "spans"], 2)


def test_a_score_of_a_session_is_said_of_its_conversation(tmp_path: Path) -> None:
    score = {"sessionId": "demo-thread-1", "name": "solved", "value": 1, "source": "ANNOTATION", "dataType": "NUMERIC"}
    write(tmp_path, "scores.json", [score])
    write(tmp_path, "trace.json", LANGGRAPH)
    [found] = conversations([tmp_path])
    assert ("solved", 1.0, "unnamed") in said(found)[0]


def test_scores_alone_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    counts = TraceCounts()
    assert not list(conversations([write(tmp_path, "scores.json", scores())], counts=counts))
    assert "3 scores or traces have their spans in no file that is here." in list(counts.sentences())


def test_tables_with_a_column_of_traces_are_read(tmp_path: Path) -> None:
    expected = only(EXPORTS / "mlflow_trace_v3.json")
    row = {"trace_id": "tr-1", "trace": json.dumps(MLFLOW), "state": "OK", "execution_duration": 7}
    searched = row | {"request": "How high?", "response": "5.4 m", "spans": json.dumps(MLFLOW["data"]["spans"])}
    for number, each in enumerate(([{"trace": row["trace"]}], [row], [searched])):
        assert only(as_table(tmp_path / f"{number}.csv", each)) == expected
        parquet.write_table(Table.from_pylist(each), tmp_path / f"{number}.parquet")
        for name in (f"{number}.csv", f"{number}.parquet"):
            loaded = load(tmp_path, name, (tmp_path / name).read_bytes())
            assert (loaded.format, loaded.rows) == ("traces", 1)
    with_answer = {"request": "How high?", "response": "5.4 m", "trace": row["trace"]}
    assert load(tmp_path, "set.json", [with_answer]).format == "databricks"


def test_rows_of_an_inference_table_are_their_traces_or_what_was_asked_and_answered(tmp_path: Path) -> None:
    asked = json.dumps({"messages": [{"role": "user", "content": "How high?"}]})
    answer = {"choices": [{"message": {"role": "assistant", "content": "5.4 m"}}]}
    traced = json.dumps({"databricks_output": {"trace": MLFLOW}})
    rows = [
        {"databricks_request_id": "a", "request": asked, "response": json.dumps(answer), "status_code": 200,
         "timestamp_ms": 1795310000000, "execution_time_ms": 1500},
        {"databricks_request_id": "b", "request": asked, "response": traced,
         "status_code": 200, "timestamp_ms": 1795310001000, "execution_time_ms": 5},
        {"databricks_request_id": "c", "request": asked, "response": "", "status_code": 500,
         "timestamp_ms": 1795310002000, "execution_time_ms": 5},
    ]  # fmt: skip
    first, second, failed = conversations([as_table(tmp_path / "payload.csv", rows)])
    assert (turns_of(first.messages)[0].answer, first.duration_s) == ("5.4 m", 1.5)
    assert second.messages == only(EXPORTS / "mlflow_trace_v3.json").messages
    assert (turns_of(failed.messages)[0].answer, failed.error) == (None, "the status was 500")


@pytest.mark.parametrize("records", [scores(), [snake(each) for each in scores()], [{"trace": json.dumps(MLFLOW)}]])
def test_absurd_scores_and_tables_break_nothing(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    trace = write(tmp_path, "trace.json", LANGGRAPH)
    for seed in range(40):
        chance = random.Random(seed)
        changed = [broken(record, chance) for record in records]
        path = write(tmp_path, f"{seed}.json", changed)
        assert any(found.key == "demo-thread-1" for found in conversations([trace, path]))
