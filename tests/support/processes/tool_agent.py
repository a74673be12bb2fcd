"""An agent over real HTTP that calls tools, in OpenAI's protocol, with every fault of the scripted judge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, completion

Calls: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]

AS_HTTP: dict[str, Any] = {
    "body": '{"messages": {{ messages }}, "tools": {{ tools }}, "session": {{ conversation_id }}}',
    "reply": {"answer": "choices[0].message.content", "tool_calls": "choices[0].message.tool_calls"},
}
"""How it is asked as an application, apart from its key and address."""


class ToolAgent(JudgeEndpoint):
    """Replies with what a script says: a text, or the calls of tools as a JSON list of names and arguments."""

    def envelope(self, question: Question, text: str, finish_reason: str) -> dict[str, Any]:
        reply = completion(question, text, finish_reason)
        if text.startswith("[["):
            calls = [
                {"id": f"{question.number}-{n}", "type": "function",
                 "function": {"name": name, "arguments": json.dumps(arguments)}}
                for n, (name, arguments) in enumerate(json.loads(text))
            ]  # fmt: skip
            reply["choices"][0] |= {"message": {"role": "assistant", "content": None, "tool_calls": calls}}
        return reply


def harbour_agent(question: Question) -> str:
    """Book a berth in two turns: find one of the length, book it for the nights, and say what the tools said."""
    last = question.body["messages"][-1]
    number = re.search(r"[0-9]+", last["content"])
    if last["role"] == "tool":
        return str(last["content"])
    if number is None:
        return "Hello."
    if "metres" in last["content"]:
        return json.dumps([["find_berth", {"length_m": float(number[0])}]])
    return json.dumps([["book_berth", {"nights": int(number[0])}]])


TOOLS = [
    {
        "name": "find_berth",
        "description": "Find a berth.",
        "parameters": {"type": "object", "properties": {"length_m": {"type": "number"}}},
    },
    {
        "name": "book_berth",
        "description": "Book it.",
        "parameters": {"type": "object", "properties": {"nights": {"type": "integer"}}},
    },
]


def recorded_booking(length: int, **fields: Any) -> dict[str, Any]:
    """Return a recorded conversation in which a berth is found and booked."""

    def called(id_: str, name: str, arguments: Mapping[str, Any], result: str) -> list[dict[str, Any]]:
        call = {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id_, "content": result},
        ]

    return {
        "case": f"berth-{length}",
        "model": "recorded",
        "tools": TOOLS,
        "messages": [
            {"role": "system", "content": "You are the harbour's assistant."},
            {"role": "user", "content": f"A berth for {length} metres?"},
            *called("a", "find_berth", {"length_m": length}, f"Berth {length} is free."),
            {"role": "assistant", "content": f"Berth {length} is free; for how many nights?"},
            {"role": "user", "content": "2 nights."},
            *called("b", "book_berth", {"nights": 2}, "Booked."),
            {"role": "assistant", "content": "It is booked."},
        ],
        "expected_tool_calls": [
            {"name": "find_berth", "arguments": {"length_m": length}},
            {"name": "book_berth", "arguments": {"nights": 2}},
        ],
        **fields,
    }
