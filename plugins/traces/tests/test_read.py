"""Files of traces: containers, log records, dialects, groups, and what a hostile file costs."""

from __future__ import annotations

import base64
import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.data import RAW, Json, calls_of, turns_of
from leadline.plugins.traces import read as reading
from leadline.plugins.traces.dialect import DIALECTS, Dialect
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.plugins.traces.trace_format import Traces
from leadline.plugins.traces.translate import Translator
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.messages import messages_with_ids
from leadline.tasks.load.source import SourceFile

TRACE = "5b8efff798038103d269b633813fc60c"
SAID = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def value(found: Any) -> dict[str, Any]:
    """Return a value as OTLP writes it."""
    if isinstance(found, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": value(each)} for name, each in found.items()]}}
    if isinstance(found, list):
        return {"arrayValue": {"values": [value(each) for each in found]}}
    if isinstance(found, bool):
        return {"boolValue": found}
    if isinstance(found, int):
        return {"intValue": str(found)}
    return {"doubleValue": found} if isinstance(found, float) else {"stringValue": found}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(each)} for name, each in attributes.items()]


def span(number: int, attributes: dict[str, Any], *, trace: str = TRACE, **members: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(number * 10**9), "endTimeUnixNano": str(number * 10**9 + 5)}
    own = {"traceId": trace, "spanId": f"{number:016x}", "name": "chat", "attributes": pairs(attributes)}
    return {**own, **times, **members}


def chat(number: int, question: str = "Hi", answer: str = "Hello.", **further: Any) -> dict[str, Any]:
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": question}]}])
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": answer}]}])
    trace = further.pop("trace", TRACE)
    attributes = {**SAID, "gen_ai.input.messages": asked, "gen_ai.output.messages": said, **further}
    return span(number, attributes, trace=trace)


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}


def logs(*records: tuple[str, int, dict[str, Any], Any]) -> dict[str, Any]:
    """Return log records: the event, the number of its span, attributes and body."""
    return {
        "resourceLogs": [
            {
                "scopeLogs": [
                    {
                        "logRecords": [
                            {"eventName": name, "traceId": TRACE, "spanId": f"{number:016x}"}
                            | {"attributes": pairs(attributes)}
                            | ({"body": value(body)} if body is not None else {})
                            for name, number, attributes, body in records
                        ]
                    }
                ]
            }
        ]
    }


@pytest.fixture
def of(tmp_path: Path) -> Any:
    """Return conversations of documents that are lines of a file."""

    def read(*documents: Any, counts: TraceCounts | None = None, **further: Any) -> list[Conversation]:
        file = tmp_path / "traces.jsonl"
        file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents))
        return list(conversations([file], counts=counts, **further))

    return read


def texts(conversation: Conversation) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in conversation.messages]


def test_content_in_a_log_record_belongs_to_its_span(of: Any) -> None:
    inside = {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]}
    said = {"gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Hello."}]}]}
    event = ("gen_ai.client.inference.operation.details", 1, {**inside, **said}, None)
    counts = TraceCounts()
    [found] = of(logs(event), document(span(1, SAID)), counts=counts)
    assert texts(found) == ["user: Hi", "assistant: Hello."]
    assert (counts.events, counts.not_captured) == (1, 0)


@pytest.mark.parametrize("as_logs", [True, False])
def test_messages_that_are_events_are_read_in_order(of: Any, *, as_logs: bool) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    told: list[tuple[str, dict[str, Any]]] = [
        ("gen_ai.system.message", {"content": "Help."}),
        ("gen_ai.user.message", {"content": "How high?"}),
        ("gen_ai.assistant.message", {"tool_calls": [call]}),
        ("gen_ai.tool.message", {"id": "c1", "content": "5.4 m"}),
        ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "5.4 m."}}),
        ("gen_ai.choice", {"index": 1, "message": {"role": "assistant", "content": "High."}}),
    ]
    if as_logs:
        [found] = of(document(span(1, SAID)), logs(*((name, 1, {}, body) for name, body in told)))
    else:
        as_text = dict.fromkeys(("message", "tool_calls"), json.dumps)
        events = [
            {"name": name, "attributes": pairs({k: as_text.get(k, lambda v: v)(v) for k, v in body.items()})}
            for name, body in told
        ]
        [found] = of(document(span(1, SAID, events=events)))
    assert texts(found) == ["system: Help.", "user: How high?", "assistant: ", "tool: 5.4 m", "assistant: 5.4 m."]
    assert [(call.name, call.result) for call in calls_of(found.messages)] == [("tide", "5.4 m")]


def test_numbered_prompts_of_openllmetry_are_messages(of: Any) -> None:
    attributes = {
        "traceloop.span.kind": "task",
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "How high?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "tide",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"harbour": "Lisbon"}',
    }
    tool = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "tide",
        "traceloop.entity.input": '{"inputs": {"harbour": "Lisbon"}}',
        "traceloop.entity.output": "5.4 m",
    }
    [found] = of(document(span(1, attributes), span(2, tool)))
    [call] = calls_of(found.messages)
    assert (call.name, call.arguments, call.result) == ("tide", {"harbour": "Lisbon"}, "5.4 m")


def test_the_vercel_sdks_tools_and_their_calls_are_read_once(of: Any) -> None:
    trace = "ab" * 16
    messages = [{"role": "user", "content": [{"type": "text", "text": "How high?"}]}]
    calls = [{"toolCallType": "function", "toolCallId": "c1", "toolName": "tide", "args": '{"harbour":"Lisbon"}'}]
    outer = span(1, {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"messages": messages})}, trace=trace)
    inner = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps(messages),
        "ai.response.toolCalls": json.dumps(calls),
        "ai.telemetry.metadata.threadId": "thread-1",
    }
    tool = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "tide", "ai.toolCall.id": "c1"}
    tool |= {"ai.toolCall.args": '{"harbour":"Lisbon"}', "ai.toolCall.result": '"5.4 m"'}
    below = {"parentSpanId": f"{1:016x}"}
    [found] = of(document(outer, span(2, inner, trace=trace, **below), span(3, tool, trace=trace, **below)))
    assert found.key == "thread-1"
    [call] = calls_of(found.messages)
    assert (call.name, call.arguments) == ("tide", {"harbour": "Lisbon"})
    assert len(turns_of(found.messages)) == 1


def test_retrievals_of_ids_only_are_counted(of: Any) -> None:
    retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "a", "score": 1}]'}
    counts = TraceCounts()
    [found] = of(document(span(1, retrieval), chat(2)), counts=counts)
    assert (counts.ids_only, turns_of(found.messages)[0].retrieved_context) == (1, ())
    assert any("ids of documents only" in sentence for sentence in counts.sentences())


def test_content_kept_elsewhere_and_not_captured_is_told_apart(of: Any) -> None:
    counts = TraceCounts()
    assert of(document(span(1, SAID), span(2, SAID | {"gen_ai.external_ref": "s3://x"})), counts=counts) == []
    assert (counts.not_captured, counts.elsewhere, counts.empty) == (1, 1, 1)


def test_annotations_of_people_become_labels(of: Any) -> None:
    said = {"name": "correctness", "score": 1.0, "annotator_kind": "HUMAN", "identifier": "anna"}
    [found] = of(document(chat(1, **{f"annotations.0.annotation.{name}": each for name, each in said.items()})))
    assert [(label.question, label.value, label.person) for label in found.labels] == [("correctness", 1.0, "anna")]


def test_traces_belong_together_by_the_most_telling_name(of: Any) -> None:
    traces = [f"{number:032x}" for number in range(1, 6)]
    found = of(
        document(
            chat(1, "one", trace=traces[0], **{"gen_ai.conversation.id": "c", "session.id": "s"}),
            chat(2, "two", trace=traces[1], **{"session.id": "s"}),
            chat(3, "three", trace=traces[2], metadata='{"thread_id": "c"}'),
            chat(4, "four", trace=traces[3], **{"mcp.session.id": "s"}),
            chat(5, "five", trace=traces[4]),
        )
    )
    asked = [[turn.question for turn in turns_of(each.messages)] for each in found]
    assert asked == [["one", "three"], ["two"], ["four"], ["five"]]
    assert [each.key for each in found] == ["c", "s", "", ""]


def test_ids_in_base64_and_names_with_underscores_are_the_same_spans(of: Any) -> None:
    [plain] = of(document(chat(1)))
    snake = json.dumps(document(chat(1)))
    for old, new in (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"),
                     ("stringValue", "string_value"),
                     ("startTimeUnixNano", "start_time_unix_nano"), ("endTimeUnixNano", "end_time_unix_nano"),
                     (TRACE, base64.b64encode(bytes.fromhex(TRACE)).decode()), ("traceId", "trace_id"),
                     ("spanId", "span_id")):  # fmt: skip
        snake = snake.replace(old, new)
    assert of(snake) == [plain]


def test_packed_files_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json.gz").write_bytes(gzip.compress(json.dumps(document(chat(1, "one"))).encode()))
    (tmp_path / "b.json").write_text(json.dumps(document(chat(2, "two", trace="ab" * 16)), indent=1))
    (tmp_path / "notes.md").write_text("no trace")
    assert len(list(conversations([tmp_path]))) == 2


def test_a_packed_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = "".join(json.dumps(document(chat(n, f"{n}", trace=f"{n:032x}"))) + "\n" for n in range(1, 500))
    packed, counts = gzip.compress(lines.encode()), TraceCounts()
    for name, content in (("broken.gz", packed[: len(packed) // 2]), ("whole.json.gz", packed), ("no.gz", b"\x1f\x8b")):
        (tmp_path / name).write_bytes(content)
    assert Traces.reads(SourceFile.at(tmp_path / "broken.gz"))
    assert 0 < len(list(conversations([tmp_path / "broken.gz"], counts=counts))) < 499
    assert counts.faults[0].startswith("a packed file is broken")
    assert len(list(conversations([tmp_path / "whole.json.gz"]))) == 499
    assert not Traces.reads(SourceFile.at(tmp_path / "no.gz"))


def test_a_packed_file_of_nothing_but_zeros_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FREE_EXPANSION", 1 << 20)
    monkeypatch.setattr(reading, "MAX_EXPANSION", 10)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b" " * (1 << 24)))
    counts = TraceCounts()
    assert not list(conversations([tmp_path / "bomb.gz"], counts=counts))
    assert "a packed file holds more than 10 times its size" in counts.faults


ASKS = {"resultType": "input_required", "inputRequests": {"1": {"method": "elicitation/create"}}}


def test_a_tool_of_mcp_that_asks_for_more_has_not_answered_yet(of: Any) -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "book", "gen_ai.tool.call.id": "c"}
    asked = [{"role": "user", "content": "Book."}]
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "book", "arguments": {}}]}]
    messages = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(calls)}
    spans = [span(1, {**SAID, **messages}), span(2, {**call, "gen_ai.tool.call.result": json.dumps(ASKS)})]
    [found] = of(document(*spans))
    assert [made.result for made in calls_of(found.messages)] == [None]
    [found] = of(document(*spans, span(3, {**call, "gen_ai.tool.call.result": "Berth 7"})))
    assert [made.result for made in calls_of(found.messages)] == ["Berth 7"]


def test_a_providers_summary_of_what_was_said_is_told(of: Any) -> None:
    summary = {"type": "compaction", "content": "A berth was asked for."}
    prompt = [{"role": "assistant", "parts": [summary]}, {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    [found] = of(document(chat(1, **{"gen_ai.input.messages": json.dumps(prompt)})))
    assert found.metadata["history_rewritten"] is True


PROMPTS: dict[str, list[dict[str, Any]]] = {
    "messages": [{"role": role, "content": role} for role in ("user", "assistant", "user")],
    "items of responses": [
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Let me look."},
        {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "found"},
    ],
}


@pytest.mark.parametrize("shape", PROMPTS)
def test_a_prompt_is_read_alike_behind_one_that_it_goes_on_with(shape: str) -> None:
    translator, items = Translator(), PROMPTS[shape]
    for size in range(1, len(items) + 1):
        attributes = {**SAID, "gen_ai.input.messages": json.dumps(items[:size])}
        read = translator.span(RawSpan("t", str(size), "", "", 1, 2, None, attributes, [], {}))
        assert read.inputs == messages_with_ids(items[:size])


MINE = """
sessions = ["acme.dialogue"]

[kinds."acme.kind"]
llm = ["completion"]

[fields]
model = ["acme.model"]
inputs = ["acme.said.N"]
outputs = ["acme.reply"]
"""


def test_a_stranger_adds_a_dialect_with_a_table(of: Any) -> None:
    attributes = {"acme.kind": "completion", "acme.model": "acme-1", "acme.dialogue": "d", "acme.reply": "Hello."}
    attributes |= {"acme.said.0.role": "user", "acme.said.0.content": "Hi"}
    mine = Dialect.model_validate(tomllib.loads(MINE))
    [found] = of(document(span(1, attributes)), dialects=(mine, *DIALECTS))
    assert texts(found) == ["user: Hi", "assistant: Hello."]
    assert (found.key, found.model) == ("d", "acme-1")


def test_the_first_dialect_that_knows_a_name_wins(of: Any) -> None:
    mine = Dialect(fields={"model": ("gen_ai.response.model",)})
    document_ = document(chat(1, **{"gen_ai.response.model": "m-2026"}))
    assert [of(document_)[0].model, of(document_, dialects=(mine, *DIALECTS))[0].model] == ["m", "m-2026"]


PROMPT, COMPLETION = '[{"role": "user", "content": "Hi"}]', '[{"role": "assistant", "content": "Hello."}]'
REQUEST = {"config": {}, "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
RESPONSE = {"content": {"role": "model", "parts": [{"text": "Hello."}]}}


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.input.messages": PROMPT, "gen_ai.output.messages": COMPLETION}, []),
        ({"gen_ai.operation.name": "chat.completions"}, [("gen_ai.content.prompt", {"gen_ai.prompt": PROMPT}),
          ("gen_ai.content.completion", {"gen_ai.completion": COMPLETION})]),
        ({}, [("gen_ai.user.message", {"content": "Hi"}), ("gen_ai.choice", {"message": '{"content": "Hello."}'})]),
        ({f"gen_ai.{name}.0.{member}": told for name, message in (("prompt", ("user", "Hi")), ("completion",
          ("assistant", "Hello."))) for member, told in zip(("role", "content"), message, strict=True)}, []),
        ({"gcp.vertex.agent.llm_request": json.dumps(REQUEST), "gcp.vertex.agent.llm_response": json.dumps(RESPONSE)},
         []),
        ({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": f'{{"messages": {PROMPT}}}',
          "mlflow.spanOutputs": f'{{"messages": {COMPLETION}}}'}, []),
        ({"traceloop.span.kind": "workflow", "traceloop.entity.input": '{"args": ["Hi"], "kwargs": {}}',
          "traceloop.entity.output": json.dumps(json.dumps({"choices": [{"message": {"content": "Hello.",
          "role": "assistant"}}]}))}, []),
    ],
    ids=["genai", "semantic kernel", "events", "openllmetry", "adk", "mlflow", "object of a library"],
)  # fmt: skip
def test_what_holds_messages_was_a_call_of_a_model_whatever_else_is_said(
    of: Any, attributes: dict[str, Any], events: list[tuple[str, dict[str, Any]]]
) -> None:
    listed = [{"name": name, "attributes": pairs(told)} for name, told in events]
    [found] = of(document(span(1, attributes, events=listed)))
    assert texts(found) == ["user: Hi", "assistant: Hello."]


def test_an_agent_and_a_tool_that_hold_messages_are_no_calls_of_a_model(of: Any) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": PROMPT}
    tool = {"gen_ai.tool.name": "tide", "gcp.vertex.agent.llm_request": "{}", "gen_ai.input.messages": PROMPT}
    empty = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    counts = TraceCounts()
    [found] = of(document(span(1, agent), span(2, tool), span(3, empty)), counts=counts)
    assert [step["kind"] for step in found.steps or ()] == ["agent", "tool", "llm"]
    assert (counts.not_captured, counts.unreadable) == (1, 0)


def asked(question: str) -> str:
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": question}]}])


def test_calls_of_one_response_stand_in_one_message_with_its_text(of: Any) -> None:
    said = [{"role": "assistant", "content": "Let me look."}]
    said += [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": name, "name": name, "arguments": {}}]}
        for name in ("tide", "wind")
    ]
    [found] = of(document(chat(1, **{"gen_ai.output.messages": json.dumps(said)})))
    assert texts(found) == ["user: Hi", "assistant: Let me look."]
    assert [call.message for call in calls_of(found.messages)] == [1, 1]


def test_content_that_openinference_was_told_to_hide_is_not_captured(of: Any) -> None:
    hidden = {"openinference.span.kind": "LLM", "input.value": "__REDACTED__", "output.value": "__REDACTED__"}
    counts = TraceCounts()
    assert of(document(span(1, hidden)), counts=counts) == []
    assert counts.not_captured == 1


def test_what_an_agent_made_of_a_last_call_is_its_answer(of: Any) -> None:
    call = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "final_result", "arguments": {}}]}]
    agent = {"gen_ai.operation.name": "invoke_agent", "final_result": '{"metres":5.4}'}
    state = {"messages": [{"type": "human", "content": "Hi"}], "structured_response": {"metres": 5.4}}
    chain = {"traceloop.span.kind": "workflow", "traceloop.entity.output": json.dumps({"outputs": state})}
    for above in (agent, chain):
        spans = [span(1, {}), span(2, above, parentSpanId=f"{1:016x}")]
        spans.append(chat(3, **{"gen_ai.output.messages": json.dumps(call)}) | {"parentSpanId": f"{2:016x}"})
        [found] = of(document(*spans))
        assert texts(found)[-1] == 'assistant: {"metres":5.4}'


def test_an_agent_that_waits_for_a_tool_has_not_its_earlier_answer(of: Any) -> None:
    call = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "ask", "arguments": {}}]}]
    state = [{"type": "ai", "content": "Hello."}, {"type": "human", "content": "Hi"}, {"type": "ai", "tool_calls": []}]
    chain = {"openinference.span.kind": "CHAIN", "output.value": json.dumps({"messages": state})}
    inner = chat(2, **{"gen_ai.output.messages": json.dumps(call)}) | {"parentSpanId": f"{1:016x}"}
    [found] = of(document(span(1, chain), inner))
    assert texts(found) == ["user: Hi", "assistant: "]


def test_a_call_that_failed_has_its_question_its_error_and_no_empty_answer(of: Any) -> None:
    failed = {"status": {"code": 2, "message": 'down: 503Traceback (most recent call last):\n  File "/app.py", line 1'}}
    empty = {"llm.output_messages.0.message.role": "assistant", "llm.input_messages.0.message.role": "user"}
    empty |= {"openinference.span.kind": "LLM", "llm.input_messages.0.message.content": "Hi"}
    agent = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": asked("Hi")}
    for spans in ([span(1, empty)], [span(1, agent, **failed), span(2, SAID, parentSpanId=f"{1:016x}")]):
        spans[-1] |= failed
        counts = TraceCounts()
        [found] = of(document(*spans), counts=counts)
        assert (texts(found), found.error, counts.not_captured) == (["user: Hi"], "down: 503", 0)


HOSTILE: list[tuple[Any, str]] = [
    ("not json at all {", "no JSON"),
    ("[1, null, 3]", "a document is no object"),
    ({"spans": []}, "no resourceSpans"),
    (document({"name": "without ids"}), "KeyError"),
    (document(span(1, {}) | {"traceId": 7}), "an id is no text"),
    (document(span(1, {}) | {"startTimeUnixNano": "soon"}), "ValueError"),
    (document(span(1, {}) | {"attributes": {"no": "list"}}), "AttributeError"),
    (document(span(1, {}) | {"attributes": [{"key": "n", "value": {"intValue": "many"}}]}), "ValueError"),
]


@pytest.mark.parametrize(("bad", "told"), HOSTILE)
def test_what_cannot_be_read_is_counted_and_the_rest_is_loaded(of: Any, bad: Any, told: str) -> None:
    counts = TraceCounts()
    assert len(of(document(chat(1)), bad, document(chat(2, trace="ab" * 16)), counts=counts)) == 2
    assert counts.malformed >= 1
    assert any(told in sentence for sentence in counts.sentences())


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\xff" * 100, b"\x00\x00\x00\x02\x0a\x00" * 3, bytes(99)])
def test_bytes_that_are_no_protobuf_are_counted(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.pb").write_bytes(data)
    assert list(conversations([tmp_path], counts=TraceCounts())) == []


def test_every_beginning_of_a_protobuf_file_is_read_without_a_crash(tmp_path: Path) -> None:
    whole = (Path(__file__).parent / "samples/openinference/openai_agent_one_turn.pb").read_bytes()
    for size in range(1, len(whole), 211):
        (tmp_path / "part.pb").write_bytes(whole[:size])
        assert list(conversations([tmp_path / "part.pb"])) == []
    (tmp_path / "part.pb").write_bytes(len(whole).to_bytes(4, "big") + whole)
    assert len(list(conversations([tmp_path / "part.pb"]))) == 1


def test_arguments_that_are_no_json_and_messages_of_no_form_are_kept_as_texts(of: Any) -> None:
    said = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "t", "arguments": "{oops"}]}]
    )
    counts = TraceCounts()
    [found] = of(
        document(chat(1, **{"gen_ai.input.messages": '{"odd": 1}', "gen_ai.output.messages": said})), counts=counts
    )
    arguments: dict[str, Json] = {RAW: "{oops"}
    assert [call.arguments for call in calls_of(found.messages)] == [arguments]
    assert texts(found)[0] == 'user: {"odd":1}'
    assert counts.unreadable == 1


def test_nested_values_and_large_bodies_are_no_crash(of: Any) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    nested = span(1, {}) | {"attributes": [{"key": "deep", "value": value(deep)}]}
    counts = TraceCounts()
    [found] = of(document(nested), document(chat(2, "a" * 10_000_000)), counts=counts)
    assert counts.malformed == 1
    assert len(turns_of(found.messages)[0].question or "") == 10_000_000


def test_a_conversation_that_is_too_large_is_counted_and_the_next_one_loaded(
    of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_SPANS", 3)
    counts = TraceCounts()
    many = [chat(number) for number in range(1, 9)]
    assert len(of(document(*many, chat(9, trace="ab" * 16)), counts=counts)) == 1
    assert counts.too_large == 1
