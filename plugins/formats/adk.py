"""Evaluation sets of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from leadline.evaluators.data import ExpectedCall, Message, calls_of
from leadline.plugins.formats.foreign_records import ForeignRecords, members, objects
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of, renumbered
from leadline.tasks.load.values import filled


@register
class AdkEvalSet(ForeignRecords):
    """Reads an EvalSet, whose invocations are turns: what was answered and called in one is expected of others."""

    name = "adk"
    title = "Google ADK"
    recognised_by = "a list `eval_cases`"
    sections = ("eval_cases",)

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are cases of an EvalSet."""
        return 0.95 if "eval_cases" in sections else 0

    def conversation(self, record: dict[str, Any], section: str) -> Conversation:
        """Return a case as it was recorded, or, with a scenario instead, as it is to begin."""
        return adk_case(record)


def adk_case(record: dict[str, Any]) -> Conversation:
    """Return an EvalCase."""
    scenario = members(record.get("conversation_scenario"))
    messages: list[Message] = []
    wanted: list[ExpectedCall] = []
    if isinstance(start := scenario.get("starting_prompt"), str):
        messages.append({"role": "user", "content": start})
    for number, invocation in enumerate(objects(record.get("conversation")), start=1):
        asked = messages_of([_content(invocation.get("user_content"), "user")])
        replied = messages_of(list(_replied(invocation)))
        if replied[-1]["content"]:
            asked[-1]["expected_answers"] = [replied[-1]["content"]]
        wanted += [{"name": call.name, "arguments": call.arguments, "turn": number} for call in calls_of(replied)]
        messages += [*asked, *replied]
    told = {
        "scenario": scenario.get("conversation_plan"),
        "user_description": scenario.get("user_persona"),
        "initial_state": members(record.get("session_input")).get("state"),
        "expected_state": record.get("final_session_state"),
    }
    return Conversation(
        renumbered(messages),
        key=filled(record.get("eval_id") or "") or "",
        expected_tool_calls=wanted if record.get("conversation") else None,
        scenario={name: value for name, value in told.items() if value} or None,
        case_metadata={name: record[name] for name in ("rubrics",) if record.get(name)},
    )


def _replied(invocation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what followed the message of the user: calls with their results, and at last the answer."""
    data = members(invocation.get("intermediate_data"))
    for event in objects(data.get("invocation_events")):
        if event.get("content"):
            yield _content(event["content"], "model") | {"name": event.get("author")}
    for name, part, role in (("tool_uses", "function_call", "model"), ("tool_responses", "function_response", "user")):
        if parts := [{part: each} for each in objects(data.get(name))]:
            yield {"role": role, "parts": parts}
    yield _content(invocation.get("final_response"), "model")


def _content(value: Any, role: str) -> dict[str, Any]:
    content = members(value)
    return {"role": content.get("role") or role, "parts": content.get("parts") or []}
