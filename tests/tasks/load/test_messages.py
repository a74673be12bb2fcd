"""Every shape of messages in the field becomes the one form of Leadline's, and stays so."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from leadline.evaluators.data import Message, calls_of, turns_of
from leadline.tasks.load.messages import as_arguments, messages_of, renumbered, tools_of
from leadline.tasks.load.values import ValueFault

CALL = {"harbour": "Lisbon"}
TIDE: list[Message] = [
    {"role": "system", "content": "You help skippers."},
    {"role": "user", "content": "How high is the tide?"},
    {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "1", "name": "tide", "arguments": CALL}]},
    {"role": "tool", "tool_call_id": "1", "name": "tide", "content": "5.4 m"},
    {"role": "assistant", "content": "5.4 m."},
]

OPENAI: list[Any] = [
    {"role": "developer", "content": [{"type": "text", "text": "You help skippers."}]},
    {"role": "user", "content": "How high is the tide?"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "refusal": None,
        "tool_calls": [
            {"id": "call_x", "type": "function", "function": {"name": "tide", "arguments": json.dumps(CALL)}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_x", "content": "5.4 m"},
    {"role": "assistant", "content": "5.4 m."},
]
OLD_OPENAI: list[Any] = [
    *OPENAI[:2],
    {"role": "assistant", "content": "Let me look.", "function_call": {"name": "tide", "arguments": json.dumps(CALL)}},
    {"role": "function", "name": "tide", "content": "5.4 m"},
    OPENAI[-1],
]
RESPONSES = {
    "instructions": "You help skippers.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "How high is the tide?"}]},
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me look."}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_x", "name": "tide", "arguments": json.dumps(CALL)},
        {"type": "function_call_output", "call_id": "call_x", "output": "5.4 m"},
        {"type": "message", "id": "m2", "role": "assistant", "content": [{"type": "output_text", "text": "5.4 m."}]},
    ],
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "You help skippers.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "How high is the tide?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": CALL},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "5.4 m"}]}
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "5.4 m."}]},
    ],
}
LANGCHAIN: list[Any] = [
    {"type": "system", "content": "You help skippers."},
    {"type": "human", "content": "How high is the tide?"},
    {
        "type": "AIMessageChunk",
        "content": "Let me look.",
        "tool_calls": [{"name": "tide", "args": CALL, "id": "a", "type": "tool_call"}],
    },
    {"type": "tool", "content": "5.4 m", "tool_call_id": "a", "status": "success"},
    {"type": "ai", "content": "5.4 m."},
]
SERIALISED: list[Any] = [
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": message}
    for name, message in zip(
        ["SystemMessage", "HumanMessage", "AIMessage", "ToolMessage", "AIMessage"],
        [{name: value for name, value in each.items() if name != "type"} for each in LANGCHAIN],
        strict=True,
    )
]
CONVENTIONS: list[Any] = [
    {"role": "system", "parts": [{"type": "text", "content": "You help skippers."}]},
    {"role": "user", "parts": [{"type": "text", "content": "How high is the tide?"}]},
    {
        "role": "assistant",
        "finish_reason": "tool_call",
        "parts": [
            {"type": "text", "content": "Let me look."},
            {"type": "tool_call", "id": "x", "name": "tide", "arguments": CALL},
        ],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "response": "5.4 m"}]},
    {"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": "5.4 m."}]},
]
GOOGLE = {
    "systemInstruction": {"parts": [{"text": "You help skippers."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "How high is the tide?"}]},
        {"role": "model", "parts": [{"text": "Let me look."}, {"functionCall": {"name": "tide", "args": CALL}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "tide", "response": {"result": "5.4 m"}}}]},
        {"role": "model", "parts": [{"text": "5.4 m.", "thought": None, "function_call": None}]},
    ],
}
SHAREGPT = {
    "conversations": [
        {"from": "system", "value": "You help skippers."},
        {"from": "human", "value": "How high is the tide?"},
        {"from": "gpt", "value": "Let me look."},
        {"from": "function_call", "value": json.dumps({"name": "tide", "arguments": CALL})},
        {"from": "observation", "value": "5.4 m"},
        {"from": "gpt", "value": "5.4 m."},
    ]
}
VERCEL: list[Any] = [
    {"role": "system", "content": "You help skippers."},
    {"role": "user", "content": [{"type": "text", "text": "How high is the tide?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "x", "toolName": "tide", "input": CALL},
        ],
    },
    {
        "role": "tool",
        "content": [
            {"type": "tool-result", "toolCallId": "x", "toolName": "tide", "output": {"type": "text", "value": "5.4 m"}}
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "5.4 m."}]},
]
OLD_VERCEL = [
    *VERCEL[:2],
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "x", "toolName": "tide", "args": CALL},
        ],
    },
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "x", "toolName": "tide", "result": "5.4 m"}]},
    VERCEL[-1],
]
SHAPES = {
    "leadline": TIDE,
    "openai": OPENAI,
    "openai before tools": OLD_OPENAI,
    "openai responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "langchain": LANGCHAIN,
    "langchain batch": [LANGCHAIN],
    "langchain serialised": SERIALISED,
    "langchain dictionaries": [{"type": each["type"], "data": each} for each in LANGCHAIN],
    "genai conventions": CONVENTIONS,
    "google": GOOGLE,
    "vercel": VERCEL,
    "vercel 4": OLD_VERCEL,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_conversations_are_equal_messages_in_whatever_shape(shape: str) -> None:
    found = messages_of(SHAPES[shape])
    assert found == TIDE
    assert messages_of(found) == found
    assert messages_of(json.loads(json.dumps(found))) == found


def test_sharegpt_has_a_call_as_a_message_of_its_own() -> None:
    found = messages_of(SHAREGPT)
    assert [message["role"] for message in found] == ["system", "user", "assistant", "assistant", "tool", "assistant"]
    assert calls_of(found) == [("tide", CALL, "5.4 m", None, 3, 1)]
    assert turns_of(found)[0].answer == "5.4 m."


@pytest.mark.parametrize(
    "completion",
    [
        {"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "5.4 m."}}]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "5.4 m."}], "usage": {}},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "5.4 m."}]}}]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5.4 m."}]}]},
        {"generations": [[{"text": "5.4 m.", "message": SERIALISED[-1]}]]},
        {"role": "assistant", "content": "5.4 m."},
    ],
)
def test_what_a_model_replies_is_its_message(completion: Any) -> None:
    assert messages_of(completion) == [TIDE[-1]]


def test_parallel_calls_of_responses_are_one_message_after_what_was_thought_and_said() -> None:
    items = [
        {"type": "message", "role": "user", "content": "Both?"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Two harbours."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "tide", "arguments": '{"harbour": "Lisbon"}'},
        {"type": "function_call", "call_id": "b", "name": "tide", "arguments": '{"harbour": "Porto"}'},
        {"type": "function_call_output", "call_id": "b", "output": "3 m"},
        {"type": "function_call_output", "call_id": "a", "output": "5 m"},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "tides"}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5 and 3."}]},
    ]
    found = messages_of(items)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool", "assistant", "assistant"]
    assert (found[1]["reasoning"], found[1]["content"]) == ("Two harbours.", "I look.")
    calls = [(call.name, call.arguments, call.result, call.message) for call in calls_of(found)]
    assert calls == [
        ("tide", {"harbour": "Lisbon"}, "5 m", 1),
        ("tide", {"harbour": "Porto"}, "3 m", 1),
        ("web_search", {"query": "tides"}, None, 4),
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "reasoning_content": "Hm.", "content": "5."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "5."}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "5."}]},
        {"role": "assistant", "parts": [{"type": "compaction", "content": "Hm."}, {"type": "text", "content": "5."}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "5."}]},
        {"type": "ai", "content": "5.", "additional_kwargs": {"reasoning_content": "Hm."}},
    ],
)
def test_what_was_thought_stands_apart_from_what_was_said(message: Any) -> None:
    assert messages_of([message]) == [{"role": "assistant", "content": "5.", "reasoning": "Hm."}]


@pytest.mark.parametrize(
    "result",
    [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "No.", "is_error": True}]},
        {"type": "tool", "tool_call_id": "x", "content": "No.", "status": "error"},
        {"role": "tool", "tool_call_id": "x", "content": "No.", "error": True},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "x",
                    "toolName": "tide",
                    "output": {"type": "error-text", "value": "No."},
                }
            ],
        },
        {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": "x",
                    "response": {"content": [{"type": "text", "text": "No."}], "isError": True},
                }
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "tide", "response": {"error": "No."}}}]},
        {"role": "tool", "tool_call_id": "x", "content": "No.", "error": {"type": "timeout", "message": "No."}},
    ],
)
def test_a_call_has_failed_where_its_result_says_so(result: Any) -> None:
    (call,) = calls_of(messages_of([TIDE[1], {**OPENAI[2], "tool_calls": [{"id": "x", "name": "tide"}]}, result]))
    assert (call.result, call.error) == ("No.", "No.")


def test_a_result_that_tells_of_a_failure_in_its_text_alone_is_none() -> None:
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "result": {"error": "No berth."}}]}
    (found,) = messages_of([result])
    assert found == {"role": "tool", "content": '{"error":"No berth."}'}


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "image_url", "image_url": {"url": "data:"}}, "[image]"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}, "[image]"),
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, "[audio]"),
        ({"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGVs"}, "[image]"),
        ({"type": "uri", "modality": "video", "uri": "s3://x"}, "[video]"),
        ({"type": "blob", "modality": "audio", "content": "aGVs", "transcript": "Ahoy"}, "Ahoy"),
        ({"type": "file", "file": {"file_id": "f"}}, "[file]"),
        ({"type": "document", "source": {"type": "text", "data": "x"}}, "[file]"),
        ({"inlineData": {"mimeType": "image/png", "data": "x"}}, "[image]"),
        ({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://x"}}, "[file]"),
        ({"executableCode": {"language": "PYTHON", "code": "1"}}, "[executableCode]"),
    ],
)
def test_what_is_no_text_is_named(part: Any, text: str) -> None:
    assert messages_of([{"role": "user", "content": ["See:", part]}])[0]["content"] == f"See:\n{text}"


def test_calls_in_the_content_are_the_models_under_any_role() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "tide", "arguments": {"at": "Lisbon"}}}]
    result = {"role": "tool", "content": "5 m"}
    for role in ("assistant", "tool"):
        found = messages_of([{"role": role, "content": calls}, result])
        assert [(call.name, call.arguments, call.result) for call in calls_of(found)] == [
            ("tide", {"at": "Lisbon"}, "5 m")
        ]
    schema = [{"type": "function", "function": {"name": "tide", "parameters": {}}}]
    assert calls_of(messages_of([{"role": "tool", "content": schema}])) == []


def test_a_part_that_holds_nothing_says_nothing() -> None:
    assert messages_of([{"role": "model", "parts": [{"text": None}, {"text": "Ahoy"}]}])[0]["content"] == "Ahoy"


def test_a_message_of_langchain_names_each_call_once() -> None:
    block = {"type": "tool_use", "id": "x", "name": "tide", "input": CALL}
    message = {
        "type": "ai",
        "content": [block],
        "tool_calls": [{"name": "tide", "args": CALL, "id": "x"}],
        "additional_kwargs": {"tool_calls": [{"id": "x", "function": {"name": "tide", "arguments": "{}"}}]},
    }
    assert messages_of([message])[0]["tool_calls"] == [{"id": "1", "name": "tide", "arguments": CALL}]


def test_tools_that_the_provider_runs_are_calls_with_results() -> None:
    content = [
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "tides"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "text", "text": "5.4 m."},
    ]
    found = messages_of([TIDE[1], {"role": "assistant", "content": content}])
    assert [message["content"] for message in found[1::2]] == ["I search.", "5.4 m."]
    assert calls_of(found)[0].result == '[{"type":"web_search_result","url":"u"}]'
    mcp = {"type": "mcp_call", "id": "m", "name": "tide", "arguments": "{}", "output": "5 m", "server_label": "s"}
    assert calls_of(messages_of([mcp])) == [("tide", {}, "5 m", None, 0, 1)]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("How high?", "expected a list of messages, found a text: 'How high?'"),
        ([TIDE[1], "Ahoy"], "message 2: expected a message, found a text: 'Ahoy'"),
        ([TIDE[1], {"a": 1}], "message 2: it is of no known role: '{\"a\":1}'"),
        (
            [{"role": "critic", "content": "No"}],
            'message 1: it is of no known role: \'{"role":"critic","content":"No"}\'',
        ),
        ([{"role": "assistant", "tool_calls": [{"id": "x"}]}], "message 1: a call names no tool"),
        ([{"role": "assistant", "tool_calls": ["x"]}], "message 1: expected a call of a tool, found a text: 'x'"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(value: Any, fault: str) -> None:
    with pytest.raises(ValueFault) as caught:
        messages_of(value)
    assert str(caught.value) == fault


def test_ids_that_are_drawn_at_random_make_no_difference() -> None:
    other = json.loads(json.dumps(OPENAI).replace("call_x", "call_y"))
    assert messages_of(other) == messages_of(OPENAI)


def test_results_without_an_id_belong_to_calls_by_name_and_order() -> None:
    calls: list[Any] = [{"id": "", "name": name, "arguments": {}} for name in ("a", "b", "a")]
    results: list[Any] = [
        {"role": "tool", "name": name, "content": text} for name, text in (("b", "1"), ("a", "2"), ("a", "3"))
    ]
    found = renumbered([{"role": "assistant", "content": "", "tool_calls": calls}, *results])
    assert [(call.name, call.result) for call in calls_of(found)] == [("a", "2"), ("b", "1"), ("a", "3")]
    assert renumbered(found) == found


def test_an_id_that_is_used_again_names_the_call_that_waits() -> None:
    messages: list[Any] = []
    for n in range(3):
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"id": "0", "name": "a", "args": {"n": n}}]}
        )
        messages.append({"role": "tool", "tool_call_id": "0", "content": str(n)})
    found = messages_of(messages)
    assert [(call.arguments["n"], call.result) for call in calls_of(found)] == [(0, "0"), (1, "1"), (2, "2")]


def test_what_leadline_knows_of_a_message_stays_with_it() -> None:
    messages = [
        {"role": "user", "content": "How high?", "expected_answers": ["5.4 m"]},
        {
            "role": "assistant",
            "name": "pilot",
            "content": "5.4 m.",
            "retrieved_context": [{"content": "High water is 5.4 m.", "doc_uri": "tides.md"}, {"content": "x"}],
        },
    ]
    assert messages_of(messages) == messages


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        (None, {}),
        ("", {}),
        ('{"a": 1', {"_raw": '{"a": 1'}),
        ("[1]", {"_raw": "[1]"}),
        ([1], {"_raw": "[1]"}),
    ],
)
def test_arguments_are_objects_or_what_was_written_instead(value: Any, arguments: Any) -> None:
    assert as_arguments(value) == arguments


def test_tools_are_read_from_every_shape() -> None:
    schema = {"type": "object", "properties": {"harbour": {"type": "string"}}}
    flat = {"name": "tide", "description": "Heights."}
    tool = {**flat, "parameters": schema}
    for shape in (
        [{"type": "function", "function": {**flat, "parameters": schema}}],
        [{"type": "function", **flat, "parameters": schema}],
        [{**flat, "input_schema": schema}],
        [json.dumps({"type": "function", **flat, "inputSchema": schema})],
        [{"functionDeclarations": [{**flat, "parametersJsonSchema": schema}]}],
        [tool],
    ):
        assert tools_of(shape) == [tool]
    mcp = {"tools": [{**flat, "inputSchema": schema, "annotations": {"readOnlyHint": True}}]}
    assert tools_of(mcp) == [{**tool, "read_only": True}]
    assert tools_of(tools_of(mcp)) == tools_of(mcp)
    assert tools_of([{"type": "web_search"}]) == [{"name": "web_search"}]
    with pytest.raises(ValueFault, match="tool 2: the tool has no name"):
        tools_of([tool, {}])


def test_a_call_that_stands_alone_names_a_tool_and_no_agent() -> None:
    items = [
        TIDE[1],
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "a", "name": "tide", "arguments": "{}"},
    ]
    assert messages_of(items)[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "tide", "arguments": {}}]}
    ]


def test_a_hostile_conversation_is_read_in_linear_time() -> None:
    calls = [{"id": str(n), "name": str(n)} for n in range(20_000)]
    results = [{"role": "tool", "tool_call_id": f"x{n}", "name": "x", "content": ""} for n in range(20_000)]
    parts = [{"type": "text", "text": "x" * 100}] * 20_000
    started = time.process_time()
    messages_of([{"role": "assistant", "content": parts, "tool_calls": calls}, *results])
    assert time.process_time() - started < 5


def test_nothing_and_instructions_alone_have_no_turn() -> None:
    assert turns_of([]) == turns_of(TIDE[:1]) == []


@pytest.mark.parametrize("packed", [False, True])
def test_a_result_of_mcp_that_asks_for_input_is_none(packed: bool) -> None:
    asks: Any = {"resultType": "input_required", "inputRequests": {}}
    asks = json.dumps(asks) if packed else asks
    call = {"role": "assistant", "tool_calls": [{"id": "c", "name": "book", "args": {}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": asks}
    part = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "response": asks}, {"text": "Go on."}]}
    assert [message["role"] for message in messages_of([call, result])] == ["assistant"]
    assert [message["role"] for message in messages_of([call, part])] == ["assistant", "user"]
    done = {"content": [{"type": "text", "text": "Berth 7"}], "resultType": "complete"}
    assert messages_of([call, {**result, "content": done}])[1]["content"] == "Berth 7"


@pytest.mark.parametrize("role", ["system", "user", "ai", "tool", "nobody"])
@pytest.mark.parametrize(
    "said",
    [
        {"content": "5.4 m"},
        {"content": ""},
        {"parts": [{"type": "text", "content": "5.4 m"}], "finish_reason": "stop"},
        {"parts": [{"type": "tool_call", "id": "c", "name": "tide", "arguments": '{"harbour": "Lisbon"}'}]},
        {"parts": [{"type": "tool_call", "id": None, "name": 7, "arguments": {}}]},
        {"parts": [{"type": "tool_call_response", "id": "c", "name": "tide", "response": "5.4 m"}]},
        {"parts": [{"type": "tool_call_response", "id": "", "response": '{"resultType": "input_required"}'}]},
        {"content": "before", "parts": [{"type": "text", "content": "5.4 m"}]},
    ],
)
def test_a_plain_message_is_read_as_one_that_has_more(role: str, said: dict[str, Any]) -> None:
    def read(**more: Any) -> list[Message] | str:
        try:
            return messages_of([{"role": role, **said, **more}])
        except ValueFault as error:
            return str(error).partition(":")[0]

    assert read() == read(further=None, another=None)


def test_a_call_that_follows_a_plain_message_is_part_of_it() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "tide", "arguments": "{}"}
    [found] = messages_of([{"role": "assistant", "content": "Let me look."}, call])
    assert (found["content"], [each["name"] for each in found["tool_calls"]]) == ("Let me look.", ["tide"])
