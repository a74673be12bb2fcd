"""Evaluation sets of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, Final

from leadline.evaluators.data import ExpectedCall, Message, calls_of
from leadline.plugins.formats.foreign_records import ForeignRecords, members, objects
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of, renumbered
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import filled

_RECORDS: Final = tuple(
    frozenset(each.split())
    for each in ("query expected_tool_use", "data initial_session", "appName events", "app_name events")
)
"""Members of a turn and of a case in the form before EvalSets, and of a session."""


@register
class AdkEvalSet(ForeignRecords):
    """Reads an EvalSet, whose invocations are turns: what was answered and called in one is expected of others.

    A session is a conversation, in which nothing is expected.
    """

    name = "adk"
    title = "Google ADK"
    recognised_by = (
        "a list `eval_cases`; `query` beside `expected_tool_use`; `data` beside `initial_session`; "
        "`events` alone or beside `appName`"
    )
    sections = ("eval_cases",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns: list[dict[str, Any]] = []

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are cases of an EvalSet, or the turns of one in the form before it."""
        if "eval_cases" in sections or names == {"events"}:
            return 0.95
        return 0.8 if any(each <= names for each in _RECORDS) else 0

    def conversation(self, record: dict[str, Any], section: str) -> Conversation | None:
        """Return a case as it was recorded, or, with a scenario instead, as it is to begin."""
        if section:
            return adk_case(record)
        if "events" in record:
            return adk_session(record)
        if "data" in record:
            return old_adk_case(record)
        self._turns.append(record)
        return None

    def end_of_records(self) -> None:
        """Stage the one case whose turns a plain list is."""
        if self._turns:
            self.convert_record(Item("", 1, None, 0), {"data": self._turns, "name": self.source.path.stem})


def adk_session(record: dict[str, Any]) -> Conversation:
    """Return a session, of which nothing is expected."""
    return Conversation(messages_of(list(_said(record["events"]))), key=filled(record.get("id") or "") or "")


def old_adk_case(record: dict[str, Any]) -> Conversation:
    """Return a case in the form before EvalSets, whose ``data`` is a list of turns."""
    turns = [_invocation(turn) for turn in objects(record.get("data"))]
    return adk_case(
        {"eval_id": record.get("name"), "conversation": turns, "session_input": record.get("initial_session")}
    )


def _invocation(turn: dict[str, Any]) -> dict[str, Any]:
    uses = objects(turn.get("expected_tool_use"))
    said = objects(turn.get("expected_intermediate_agent_responses"))
    told = [(each, each["mock_tool_output"]) for each in uses if each.get("mock_tool_output") is not None]
    return {
        "user_content": {"parts": [{"text": turn.get("query")}]},
        "final_response": {"parts": [{"text": turn.get("reference") or ""}]},
        "intermediate_data": {
            "invocation_events": [
                {"author": each.get("author"), "content": {"parts": [{"text": each.get("text")}]}} for each in said
            ],
            "tool_uses": [{"name": each.get("tool_name"), "args": each.get("tool_input")} for each in uses],
            "tool_responses": [{"name": each.get("tool_name"), "response": output} for each, output in told],
        },
    }


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
    yield from _said(data.get("invocation_events"))
    for name, part, role in (("tool_uses", "function_call", "model"), ("tool_responses", "function_response", "user")):
        if parts := [{part: {**each, "name": each.get("name") or ""}} for each in objects(data.get(name))]:
            yield {"role": role, "parts": parts}
    yield _content(invocation.get("final_response"), "model")


def _said(events: Any) -> Iterator[dict[str, Any]]:
    """Yield what was said and called in events; others only change the state."""
    for event in objects(events):
        if event.get("content"):
            yield _content(event["content"], "model") | {"name": event.get("author")}


def _content(value: Any, role: str) -> dict[str, Any]:
    content = members(value)
    return {"role": content.get("role") or role, "parts": content.get("parts") or []}
