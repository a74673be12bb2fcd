"""Exports of Langfuse, LangSmith and MLflow, read as spans."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

from leadline.plugins.traces import langfuse, langsmith, mlflow
from leadline.plugins.traces.span import ELSEWHERE, IDS_ONLY, NOT_CAPTURED, Annotated, TraceSpan, Usage

EXPORTS: Final = Path(__file__).parent / "exports"


class Numbers(NamedTuple):
    """What spans hold together: messages in and out of models, and calls among those that came out."""

    kinds: dict[str, int]
    messages: int
    calls: int
    results: int
    contexts: int
    tools: int


def numbers(spans: Iterable[TraceSpan]) -> Numbers:
    spans = list(spans)
    models = [span for span in spans if span.kind == "llm"]
    said = [message for span in models for message in span.outputs or ()]
    return Numbers(
        kinds=dict(Counter(span.kind for span in spans)),
        messages=sum(len(span.inputs or ()) for span in models) + len(said),
        calls=sum(len(message.get("tool_calls", ())) for message in said),
        results=sum(span.result is not None for span in spans),
        contexts=sum(len(span.documents) for span in spans),
        tools=len({tool["name"] for span in spans for tool in span.tools or ()}),
    )


def records(name: str) -> list[Any]:
    texts = (EXPORTS / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in texts.splitlines()] if name.endswith("l") else [json.loads(texts)]


def spans_in(reader: ModuleType, name: str) -> list[TraceSpan]:
    assert all(map(reader.recognises, records(name)))
    return [span for record in records(name) for span in reader.spans_of(record)]


FILES: Final = {
    "langfuse_langgraph.json": (langfuse, Numbers({"chain": 6, "llm": 2, "tool": 1}, 8, 1, 1, 0, 1)),
    "langfuse_openai_agents.json": (langfuse, Numbers({"agent": 2, "llm": 2, "tool": 1}, 8, 1, 1, 0, 1)),
    "langfuse_pydantic_ai.json": (langfuse, Numbers({"chain": 2, "agent": 3, "llm": 4, "tool": 3}, 22, 4, 3, 0, 0)),
    "langsmith_runs.jsonl": (langsmith, Numbers({"chain": 1, "llm": 1, "tool": 1, "retriever": 1}, 2, 1, 1, 1, 0)),
    "mlflow_trace_v3.json": (mlflow, Numbers({"agent": 1, "llm": 1, "retriever": 1, "tool": 1}, 2, 1, 1, 1, 0)),
}


@pytest.mark.parametrize(("name", "reader", "expected"), [(name, *rest) for name, rest in FILES.items()])
def test_the_spans_of_an_export_hold_what_was_said_called_and_found(
    name: str, reader: ModuleType, expected: Numbers
) -> None:
    spans = spans_in(reader, name)
    assert numbers(spans) == expected
    assert not any(span.missing or span.error is not None for span in spans)
    assert sum(not span.parent for span in spans) == 1
    assert all(0 < span.start_ns <= span.end_ns for span in spans)
    others = {langfuse, langsmith, mlflow} - {reader}
    assert not any(other.recognises(record) for record in records(name) for other in others)


def by_name(spans: Iterable[TraceSpan]) -> dict[str, TraceSpan]:
    return {span.name: span for span in spans}


def test_langfuse_names_session_model_cost_call_and_scores() -> None:
    spans = spans_in(langfuse, "langfuse_langgraph.json")
    assert {span.session for span in spans} == {"demo-thread-1"}
    model, tool, root = (by_name(spans)[name] for name in ("ChatOpenAI", "Web-Search", "LangGraph"))
    assert (model.model, model.usage) == ("gpt-4o-2024-08-06", Usage(108, 51, 0.000159))
    assert (tool.call_id, tool.arguments) == ("call_1oGK863sxQHlPreFhDdEs3yl", {"query": "example"})
    assert tool.result == '[{"url":"https://example.com","title":"Example Result","q":"example"}]'
    assert [(each.name, each.value, each.human) for each in root.annotations] == [
        ("hallucination", 0.1, False),
        ("toxicity", 0, False),
    ]
    assert [message["role"] for message in root.outputs or ()] == ["assistant", "tool", "assistant"]
    tools = [span.name for span in spans_in(langfuse, "langfuse_pydantic_ai.json") if span.kind == "tool"]
    assert tools == ["get_dad_joke_suggestion", "get_one_liner_suggestion", "get_pun_suggestion"]


def test_instructions_that_a_response_of_openai_repeats_are_the_system_message() -> None:
    models = [span for span in spans_in(langfuse, "langfuse_openai_agents.json") if span.kind == "llm"]
    for span in models:
        assert (span.inputs or [])[0] == {"role": "system", "content": "You are a helpful agent."}
        assert [message["role"] for message in span.outputs or ()] == ["assistant"]


def test_observations_alone_in_either_naming_are_the_spans_of_their_trace() -> None:
    record = records("langfuse_pydantic_ai.json")[0]
    whole = [span for span in langfuse.spans_of(record) if span.parent]
    alone = [each for each in record["observations"] if each["parentObservationId"]]
    assert [span for each in alone for span in langfuse.spans_of(each)] == whole
    written = {"model": "provided_model_name"}
    for each in alone:
        snake = {
            written.get(name, "".join(f"_{c.lower()}" if c.isupper() else c for c in name)): each[name] for name in each
        }
        assert langfuse.recognises(snake)
        assert list(langfuse.spans_of(snake)) == [span for span in whole if span.id == each["id"]]


SCORES: Final = [
    {
        "name": "helpful",
        "value": 1,
        "dataType": "BOOLEAN",
        "source": "ANNOTATION",
        "authorUserId": "ann",
        "comment": "yes",
    },
    {
        "name": "tone",
        "value": 2,
        "stringValue": "rude",
        "dataType": "CATEGORICAL",
        "source": "HUMAN",
        "observationId": "b",
    },
    {"name": "toxicity", "value": 0.25, "source": "EVAL"},
    {"name": "broken", "value": {"a": 1}, "source": "API"},
]


def test_scores_of_people_are_told_from_those_of_programs() -> None:
    observations = [
        {"id": "a", "traceId": "t", "type": "SPAN", "parentObservationId": None},
        {"id": "b", "traceId": "t", "type": "GENERATION", "parentObservationId": "a", "level": "ERROR"},
    ]
    root, model = langfuse.spans_of(
        {"trace": {"id": "t", "sessionId": "s", "scores": SCORES}, "observations": observations}
    )
    assert list(root.annotations) == [
        Annotated("helpful", value=True, person="ann", human=True, note="yes"),
        Annotated("toxicity", value=0.25),
    ]
    assert list(model.annotations) == [Annotated("tone", value="rude", human=True)]
    assert (model.error, model.missing, model.session) == ("", NOT_CAPTURED, "s")


def test_langsmith_groups_by_thread_never_by_project() -> None:
    run = records("langsmith_runs.jsonl")[1] | {"session_id": "the project"}
    (span,) = langsmith.spans_of(run)
    assert (span.session, span.parent, span.usage) == ("conv-lisbon-1", run["parent_run_id"], Usage(52, 9))
    (alone,) = langsmith.spans_of(run | {"extra": {}})
    assert alone.session == ""
    for name in ("thread_id", "session_id", "conversation_id"):
        (span,) = langsmith.spans_of(run | {"extra": json.dumps({"metadata": {name: "c1"}})})
        assert span.session == "c1"


def test_runs_inside_a_run_are_of_its_trace_whatever_they_name() -> None:
    inner = {"id": "2", "run_type": "llm", "inputs": {}, "outputs": {}, "child_runs": [{"id": "3", "run_type": "tool"}]}
    run = {"id": "1", "run_type": "chain", "child_runs": [inner]}
    assert langsmith.recognises(run)
    for trace in ({}, {"trace_id": "t"}):
        found = [(span.trace, span.id, span.parent) for span in langsmith.spans_of({**run, **trace})]
        of = trace.get("trace_id", "1")
        assert found == [(of, "1", ""), (of, "2", "1"), (of, "3", "2")]


def test_langsmith_reads_what_langchain_writes() -> None:
    human = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "HumanMessage"],
        "kwargs": {"content": "Tide?", "type": "human"},
    }
    said = {"type": "ai", "content": "", "tool_calls": [{"name": "tide", "args": {"at": "Lisbon"}, "id": "c"}]}
    answer = {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": said}
    result = {"type": "tool", "content": "no such harbour", "tool_call_id": "c", "status": "error"}
    schema = {"type": "object", "properties": {}}
    model, tool, after = langsmith.spans_of(
        {
            "id": "1",
            "run_type": "llm",
            "trace_id": "t",
            "name": "ChatOpenAI",
            "inputs": {"messages": [[human]]},
            "outputs": {"generations": [[{"text": "", "message": answer}]]},
            "extra": {
                "metadata": {"ls_model_name": "gpt-4o", "team": "sea"},
                "invocation_params": {
                    "tools": [
                        {
                            "type": "function",
                            "function": {
                                "name": "tide",
                                "parameters": schema,
                            },
                        }
                    ]
                },
            },
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_cost": "0.5",
            "feedback": [
                {
                    "key": "ok",
                    "score": 0,
                    "feedback_source": {"type": "app", "user_name": "ann"},
                    "comment": "no",
                }
            ],
            "feedback_stats": {"toxic": {"n": 2, "avg": 0.5}},
            "child_runs": [
                {
                    "id": "2",
                    "run_type": "tool",
                    "trace_id": "t",
                    "name": "tide",
                    "inputs": {"input": "{'at': 'Lisbon'}"},
                    "outputs": {"output": result},
                },
                {
                    "id": "3",
                    "run_type": "llm",
                    "trace_id": "t",
                    "inputs_s3_urls": {"ROOT": "s3://"},
                    "error": "time is up",
                },
            ],
        }
    )
    assert model.inputs == [{"role": "user", "content": "Tide?"}]
    assert (model.outputs or [])[0].get("tool_calls") == [{"id": "c", "name": "tide", "arguments": {"at": "Lisbon"}}]
    assert (model.tools, model.model, model.usage) == (
        [{"name": "tide", "parameters": schema}],
        "gpt-4o",
        Usage(3, 4, 0.5),
    )
    assert list(model.annotations) == [Annotated("ok", 0, "ann", human=True, note="no"), Annotated("toxic", 0.5)]
    assert model.metadata == {"team": "sea"}
    assert (tool.parent, tool.arguments, tool.call_id) == ("1", {"at": "Lisbon"}, "c")
    assert (tool.result, tool.error) == ("no such harbour", "no such harbour")
    assert (after.missing, after.error, after.inputs) == (ELSEWHERE, "time is up", None)


ASSESSMENTS: Final = [
    {
        "assessment_name": "correct",
        "source": {"source_type": "HUMAN", "source_id": "ann"},
        "feedback": {"value": True},
        "rationale": "seen it",
    },
    {"assessment_name": "correct", "source": {"source_type": "HUMAN"}, "feedback": {"value": False}, "valid": False},
    {
        "assessment_name": "grounded",
        "source": {"source_type": "LLM_JUDGE"},
        "feedback": {"value": "yes"},
        "span_id": "IsiLyzkImz4=",
    },
    {"assessment_name": "answer", "source": {"source_type": "HUMAN"}, "expectation": {"value": "5.4 m"}},
]


def test_assessments_of_mlflow_are_annotations_and_expectations_are_facts() -> None:
    record = records("mlflow_trace_v3.json")[0]
    record["info"]["assessments"] = ASSESSMENTS
    spans = by_name(mlflow.spans_of(record))
    assert list(spans["agent"].annotations) == [
        Annotated("correct", value=True, person="ann", human=True, note="seen it")
    ]
    assert list(spans["chat"].annotations) == [Annotated("grounded", value="yes")]
    assert spans["agent"].metadata == {"user": "u1", "env": "test", "expected.answer": "5.4 m"}
    assert {span.session for span in spans.values()} == {"conv-lisbon-1"}


def as_version_2(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace of MLflow 3 as MLflow 2 writes it."""
    info = record["info"]
    spans = [
        {
            "name": span["name"],
            "context": {"span_id": span["span_id"], "trace_id": span["trace_id"]},
            "parent_id": span["parent_span_id"],
            "start_time": span["start_time_unix_nano"],
            "end_time": span["end_time_unix_nano"],
            "status_code": span["status"]["code"].removeprefix("STATUS_CODE_"),
            "status_message": "",
            "attributes": span["attributes"],
            "events": [],
        }
        for span in record["data"]["spans"]
    ]
    given = {"request_id": info["trace_id"], "timestamp_ms": 1, "request_metadata": info["trace_metadata"]}
    return {"info": given | {"tags": info["tags"]}, "data": {"spans": spans, "request": "{}", "response": "{}"}}


def test_versions_of_mlflow_and_columns_of_databricks_give_the_same_spans() -> None:
    record = records("mlflow_trace_v3.json")[0]
    expected = list(mlflow.spans_of(record))
    others = [as_version_2(record), {"request_id": "1", "trace": record}, {"request": "?", "trace": json.dumps(record)}]
    for other in others:
        assert mlflow.recognises(other)
        assert list(mlflow.spans_of(other)) == expected
    (alone,) = mlflow.spans_of({"info": record["info"]})
    assert (alone.trace, alone.missing, alone.kind) == (record["info"]["trace_id"], ELSEWHERE, "other")


def test_a_span_of_mlflow_that_failed_says_with_what() -> None:
    record = records("mlflow_trace_v3.json")[0]
    tool = record["data"]["spans"][3]
    tool["status"] = {"code": "STATUS_CODE_ERROR", "message": ""}
    tool["events"] = [{"name": "exception", "attributes": {"exception.message": "no such harbour"}}]
    tool["end_time_unix_nano"] = None
    span = by_name(mlflow.spans_of(record))["get_tide"]
    assert (span.error, span.end_ns) == ("no such harbour", 0)


@pytest.mark.parametrize(
    ("found", "documents", "missing"),
    [
        ([], [], ""),
        (None, [], NOT_CAPTURED),
        ("nothing of the kind", [], NOT_CAPTURED),
        ([{"id": "a", "score": 1}], [{"content": "", "doc_uri": "a"}], IDS_ONLY),
        ([{"content": "x"}, {"id": "a"}], [{"content": "x"}, {"content": "", "doc_uri": "a"}], IDS_ONLY),
        ({"documents": ["x", {"text": "y", "id": 7}]}, [{"content": "x"}, {"content": "y", "doc_uri": "7"}], ""),
        ('[{"pageContent": "x", "metadata": {"source": "s"}}]', [{"content": "x", "doc_uri": "s"}], ""),
    ],
)
def test_documents_without_texts_are_said_to_be_missing(found: Any, documents: list[Any], missing: str) -> None:
    (span,) = langfuse.spans_of(observation("RETRIEVER", "tide", found))
    assert (list(span.documents), span.missing) == (documents, missing)


def observation(type_: str, given: Any, returned: Any) -> dict[str, Any]:
    return {"id": "a", "traceId": "t", "parentObservationId": "r", "type": type_, "input": given, "output": returned}


@pytest.mark.parametrize(
    ("given", "returned", "inputs", "outputs"),
    [
        ("How high?", "5 m", "How high?", "5 m"),
        ({"prompt": "How high?"}, {"choices": [{"text": "5 m"}]}, "How high?", "5 m"),
        ({"args": ["How high?"], "kwargs": {}}, {"answer": "5 m"}, "How high?", "5 m"),
        ({"prompts": ["How high?"]}, {"generations": [[{"text": "5 m"}]]}, "How high?", "5 m"),
        (
            '{"messages": [{"role": "user", "content": "How high?"}]}',
            '{"height": "5 m"}',
            "How high?",
            '{"height": "5 m"}',
        ),
        ({"a": 1, "b": 2}, 7, None, None),
        ([], "", None, None),
    ],
)
def test_what_is_no_message_is_not_captured(given: Any, returned: Any, inputs: str | None, outputs: str | None) -> None:
    (span,) = langfuse.spans_of(observation("GENERATION", given, returned))
    assert (span.inputs and span.inputs[-1]["content"]) == inputs
    assert (span.outputs and span.outputs[-1]["content"]) == outputs
    assert span.missing == (NOT_CAPTURED if inputs is None else "")


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (None, None),
        ("", {}),
        ("Lisbon", {"_raw": "Lisbon"}),
        ('{"at": "Lisbon"', {"_raw": '{"at": "Lisbon"'}),
        ([1], {"_raw": "[1]"}),
        ({"input": "Lisbon"}, {"input": "Lisbon"}),
        ("{'at': None, 'n': [1, True]}", {"at": None, "n": [1, True]}),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_they_were_written(given: Any, arguments: Any) -> None:
    (span,) = langfuse.spans_of(observation("TOOL", given, None))
    assert span.arguments == arguments
    assert span.missing == ("" if arguments is not None else NOT_CAPTURED)


def test_an_event_has_ended_and_other_observations_without_an_end_have_not() -> None:
    start = {"startTime": "2025-08-22T09:38:57.088Z"}
    (event,) = langfuse.spans_of(observation("EVENT", None, None) | start)
    (other,) = langfuse.spans_of(observation("NEWTYPE", None, None) | start)
    assert (event.kind, event.end_ns) == ("other", event.start_ns)
    assert (other.kind, other.end_ns) == ("other", 0)


def test_a_cycle_of_parents_and_a_missing_one_are_handed_on_as_they_are() -> None:
    record = records("langfuse_openai_agents.json")[0]
    first, second, third, *_ = record["observations"]
    first["parentObservationId"], second["parentObservationId"] = second["id"], first["id"]
    third["parentObservationId"] = "nobody"
    spans = list(langfuse.spans_of(record))
    assert [span.parent for span in spans[:3]] == [second["id"], first["id"], "nobody"]
    assert [len(span.annotations) for span in spans].count(2) == 1


def test_bodies_of_ten_megabytes_are_read() -> None:
    body = "x" * 10_000_000
    (span,) = langfuse.spans_of(observation("GENERATION", body, [{"role": "assistant", "content": body}]))
    assert (span.outputs or [])[0]["content"] == (span.inputs or [])[0]["content"] == body
    (deep,) = langfuse.spans_of(observation("GENERATION", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900))
    assert (deep.inputs or [])[0]["content"] == "[" * 100_000


ABSURD: Final = [
    None,
    True,
    0,
    -1,
    1e308,
    float("nan"),
    "",
    "x",
    "{",
    '{"a": [1]}',
    "\ud800",
    [],
    {},
    [[]],
    [None],
    {"": {}},
    2**70,
    "9" * 400,
    [{"role": "user"}],
    {"role": "tool"},
    {"content": {"type": "function", "function": {}}},
    "[" * 2000,
]


def broken(value: Any, chance: random.Random) -> Any:
    """Return a value with absurd ones at some of its places."""
    if chance.random() < 0.04:
        return chance.choice(ABSURD)
    if isinstance(value, dict):
        return {name: broken(each, chance) for name, each in value.items() if chance.random() > 0.02}
    return [broken(each, chance) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "reader"), [(name, reader) for name, (reader, _) in FILES.items()])
def test_absurd_values_anywhere_break_nothing(name: str, reader: ModuleType) -> None:
    given = records(name)
    read = 0
    for seed in range(150):
        chance = random.Random(seed)
        for record in given:
            changed = broken(record, chance)
            if isinstance(changed, dict):
                reader.recognises(changed)
                spans = list(reader.spans_of(changed))
                read += len(spans)
                assert all(isinstance(span.id, str) and isinstance(span.parent, str) for span in spans)
                assert all(0 <= at < 2**63 for span in spans for at in (span.start_ns, span.end_ns))
    assert read > 100
