"""Samples of other tools become the conversations that they are of, whatever the container and the dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.data import calls_of, turns_of
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.tasks.load.conversation import Conversation

SAMPLES = Path(__file__).parent / "samples"
FOUND = {
    "openinference/openai_agent_one_turn.json": [(1, 1, 1, 5)],
    "openinference/openai_agent_one_turn.pb": [(1, 1, 1, 5)],
    "openinference/spans_flat.parquet": [(1, 1, 1, 5)],
    "otlp/otlp_events_minimal.json": [],
    "otlp/otlp_trace_minimal.json": [],
    "otlp/pydantic_ai_v2_three_turns.json": [(3, 2, 0, 10)],
    "otlp/pydantic_ai_v2_three_turns.pb": [(3, 2, 0, 10)],
    "otlp/pydantic_ai_v5_three_turns.json": [(3, 2, 0, 10)],
    "otlp/pydantic_ai_v5_three_turns.pb": [(3, 2, 0, 10)],
    "vercel/ai-embed-doEmbed.json": [],
    "vercel/ai-embed.json": [],
    "vercel/ai-generateObject-doGenerate.json": [(1, 0, 0, 1)],
    "vercel/ai-generateObject.json": [(1, 0, 0, 1)],
    "vercel/ai-generateText-doGenerate.json": [(1, 0, 0, 1), (2, 0, 0, 1)],
    "vercel/ai-generateText.json": [(1, 0, 0, 1), (2, 0, 0, 1)],
}
"""Of each conversation in a file: its turns, calls of tools, chunks of context and steps."""


def read(*names: str, counts: TraceCounts | None = None) -> list[Conversation]:
    return list(conversations([SAMPLES / name for name in names], counts=counts))


def measured(conversation: Conversation) -> tuple[int, int, int, int]:
    turns = turns_of(conversation.messages)
    chunks = sum(len(turn.retrieved_context) for turn in turns)
    return len(turns), len(calls_of(conversation.messages)), chunks, len(conversation.steps or ())


@pytest.mark.parametrize("name", FOUND)
def test_a_sample_has_the_conversations_that_were_led(name: str) -> None:
    counts = TraceCounts()
    assert [measured(found) for found in read(name, counts=counts)] == FOUND[name]
    assert counts.malformed == counts.unreadable == counts.unmatched == 0


def test_every_sample_is_read_by_a_test() -> None:
    there = {str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*")}
    assert there == {*FOUND, *(f"openinference_genai/{path.name}" for path in SAMPLES.glob("openinference_genai/*"))}


@pytest.mark.parametrize("name", [name.removesuffix(".pb") for name in FOUND if name.endswith(".pb")])
def test_json_and_protobuf_are_the_same_conversations(name: str) -> None:
    assert read(f"{name}.json") == read(f"{name}.pb")


def test_a_flat_table_is_the_same_conversation_as_its_spans() -> None:
    [table], [spans] = read("openinference/spans_flat.parquet"), read("openinference/openai_agent_one_turn.json")
    assert (table.messages, table.steps, table.tools) == (spans.messages, spans.steps, spans.tools)


def test_two_formats_of_pydantic_ai_are_the_same_messages() -> None:
    [old], [new] = read("otlp/pydantic_ai_v2_three_turns.json"), read("otlp/pydantic_ai_v5_three_turns.json")
    assert old.messages == new.messages
    assert old.tools == new.tools


def test_the_messages_of_three_traces_stand_once_with_what_tools_returned() -> None:
    [found] = read("otlp/pydantic_ai_v5_three_turns.json")
    assert found.key == "conv-lisbon-1"
    assert list(found.messages) == [
        {"role": "system", "content": "You help skippers."},
        {"role": "user", "content": "How high is the tide?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [{"id": "1", "name": "get_tide", "arguments": {"harbour": "Lisbon"}}],
        },
        {"role": "tool", "content": "5.4 m", "name": "get_tide", "tool_call_id": "1"},
        {"role": "assistant", "content": "High water springs at Lisbon is 5.4 m."},
        {"role": "user", "content": "Please book a berth."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "2", "name": "book_berth", "arguments": {"harbour": "Lisbon", "length_m": 120}}],
        },
        {
            "role": "tool",
            "content": "No berth is longer than 50 m.",
            "name": "book_berth",
            "tool_call_id": "2",
            "error": "No berth is longer than 50 m.",
        },
        {"role": "assistant", "content": "Berth 7 is booked for you."},
        {"role": "user", "content": "Thanks"},
        {"role": "assistant", "content": "You are welcome."},
    ]
    assert (found.input_tokens, found.output_tokens) == (323, 121)
    assert [step["turn"] for step in found.steps or ()] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]


BARE = SAMPLES / "openinference_genai"


def of_attributes(path: Path, *records: Any) -> list[Conversation]:
    """Return the conversations of attributes that stand alone, an object a line."""
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return list(conversations([path]))


def attributes(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BARE / f"{name}.json").read_text())
    return found


def test_the_same_call_is_the_same_conversation_in_two_conventions() -> None:
    [first] = read("openinference_genai/openinference_client_span_tool_calls.json")
    [second] = read("openinference_genai/otel_genai_client_span_tool_calls.json")
    assert first.messages == second.messages
    assert measured(first) == measured(second) == (1, 1, 0, 1)
    assert (first.input_tokens, first.output_tokens) == (second.input_tokens, second.output_tokens) == (97, 52)
    assert read("openinference_genai/otel_genai_tool_execution_span.json") == []


def test_attributes_alone_are_recognised_in_all_containers(tmp_path: Path) -> None:
    call = attributes("otel_genai_client_span_tool_calls")
    tool = attributes("otel_genai_tool_execution_span")
    [expected] = read("openinference_genai/otel_genai_client_span_tool_calls.json")
    for number, records in enumerate(([call], [tool, call], [{"data": [call]}], [{"attributes": call}], [[call]])):
        assert of_attributes(tmp_path / f"{number}.jsonl", *records) == [expected]
    again = {**call, "gen_ai.response.id": "2"}
    assert [each.messages for each in of_attributes(tmp_path / "two.jsonl", call, again)] == [expected.messages] * 2
    turns = [{**each, "gen_ai.conversation.id": "c"} for each in (call, {**tool, "gen_ai.tool.call.id": "9"})]
    [together] = of_attributes(tmp_path / "turns.jsonl", *turns)
    assert (together.key, measured(together)) == ("c", (1, 1, 0, 2))
    plain = {name: call[name] for name in ("gen_ai.input.messages", "gen_ai.output.messages")}
    assert of_attributes(tmp_path / "plain.jsonl", plain)[0].messages == expected.messages


@pytest.mark.parametrize("value", [None, 7, [], {}, "[", [[]], {"a": {"b": []}}])
def test_absurd_attributes_alone_break_nothing(tmp_path: Path, value: Any) -> None:
    call = attributes("openinference_client_span_tool_calls")
    for name in call:
        of_attributes(tmp_path / "a.jsonl", call | {name: value})


def test_a_tools_span_is_read_beside_its_call(tmp_path: Path) -> None:
    spans = [
        {"traceId": "1" * 32, "spanId": f"{number:016x}", "name": "call", "startTime": [number, 0],
         "endTime": [number, 1], "attributes": attributes(name)}
        for number, name in enumerate(("otel_genai_client_span_tool_calls", "otel_genai_tool_execution_span"), 1)
    ]  # fmt: skip
    [found] = of_attributes(tmp_path / "spans.json", spans)
    assert measured(found) == (1, 1, 0, 2)
    assert [step["name"] for step in found.steps or ()] == ["call", "get_weather"]
