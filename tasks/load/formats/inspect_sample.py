"""A sample of inspect's logs as a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from leadline.evaluators.data import Message, Tool, turns_of
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.messages import given_chunks, messages_of, tools_of
from leadline.tasks.load.values import ValueFault, chunks, count, key, number, texts

_CONTEXT: Final = "retrieved_context"
_FINAL: Final = "final_state"
_EXPECTED: Final = ("expected_state", "expected_facts")
"""Metadata of a sample by which its author says what the agent is to leave behind, and to tell."""
_SPENT: Final = ("working_time", "total_time")
"""How long a sample took, without and with the times that it waited for a model that was busy."""


def inspect_sample(record: Mapping[str, Any]) -> Conversation:
    """Return a sample as a conversation; what stood in its input was not said by the model.

    Each epoch but the first is a case of its own. Where a limit stopped the sample before it answered, that is the
    error; a limit that it met afterwards is metadata.

    Raises:
        ValueFault: Something in it is no message.
    """
    metadata, output = dict(_object(record.get("metadata"))), _object(record.get("output"))
    store = _object(record.get("store"))
    context = store.get(_CONTEXT) or metadata.get(_CONTEXT)
    metadata.pop(_CONTEXT, None)
    left = {name: value for name, value in store.items() if name != _CONTEXT}
    given = [_named(message) for message in _list(record.get("messages"))] or _of_input(record, output)
    messages = messages_of(given)
    if context is not None and (places := _places(messages, "assistant")):
        messages[places[-1]]["retrieved_context"] = given_chunks(chunks(context))
    limit = _object(record.get("limit"))
    stopped = f"the limit of {limit['type']} was reached" if limit.get("type") else None
    turns = turns_of(messages)
    answered = bool(turns) and turns[-1].answer is not None
    usage = _usage(record, output, calls=len(_places(messages, "assistant")))
    spent = next((record[name] for name in _SPENT if record.get(name) is not None), None)
    epoch, id_ = record.get("epoch"), key(record.get("id") if record.get("id") is not None else "")
    scores = {f"inspect.{name}": _object(score).get("value") for name, score in _object(record.get("scores")).items()}
    return Conversation(
        messages,
        key=f"{id_} epoch {epoch}" if id_ and isinstance(epoch, int) and epoch > 1 else id_ or "",
        given=_given(messages, given),
        model=str(output.get("model") or ""),
        tools=_tools(record),
        error=_object(record.get("error")).get("message") or (None if answered else stopped),
        duration_s=None if spent is None else number(spent),
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        expected_answers=texts(record.get("target") or []),
        scenario={name: metadata.pop(name) for name in _EXPECTED if name in metadata} or None,
        case_metadata={f"metadata.{name}": value for name, value in metadata.items()},
        metadata=scores | ({_FINAL: left} if left else {}) | ({"inspect.limit": limit["type"]} if stopped else {}),
    )


def _named(message: Any) -> Any:
    """Return a message that has the tool's name, if it is a result, where other tools write it."""
    return message | {"name": message.get("function")} if _object(message).get("role") == "tool" else message


def _of_input(record: Mapping[str, Any], output: Mapping[str, Any]) -> list[Any]:
    """Return the input and the first choice of a sample that has no messages."""
    asked = record.get("input")
    asked = [{"role": "user", "content": asked, "source": "input"}] if isinstance(asked, str) else _list(asked)
    answers = [_object(_object(choice).get("message")) for choice in _list(output.get("choices"))[:1]]
    return [*asked, *({"role": "assistant", "source": "generate", **answer} for answer in answers if answer)]


def _given(messages: list[Message], sources: list[Any]) -> int:
    """Return how many messages stood in the input before its last question, if any of them was no instruction."""
    roles = [(_object(each).get("role"), _object(each).get("source") == "generate") for each in sources]
    begun = next((place for place, (_, generated) in enumerate(roles) if generated), len(roles))
    asked = [role for role, _ in roles[:begun]].count("user")
    users = _places(messages, "user")[:asked]
    return users[-1] if users and any(message["role"] != "system" for message in messages[: users[-1]]) else 0


def _places(messages: Iterable[Message], role: str) -> list[int]:
    return [place for place, message in enumerate(messages) if message["role"] == role]


def _tools(record: Mapping[str, Any]) -> list[Tool] | None:
    """Return the tools that were offered to the model first."""
    events = (_object(event) for event in _list(record.get("events")))
    offered = next((event["tools"] for event in events if event.get("event") == "model" and event.get("tools")), None)
    try:
        return None if offered is None else tools_of(offered)
    except ValueFault:
        return None


def _usage(record: Mapping[str, Any], output: Mapping[str, Any], *, calls: int) -> dict[str, Any]:
    """Return the tokens of the model under test, empty where those of others are counted with them.

    Args:
        calls: Messages that a model said.
    """
    models = list(_object(record.get("model_usage")).values())
    return _object(models[0] if len(models) == 1 else output.get("usage") if calls == 1 else None)


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    return None if usage.get(name) is None else count(usage[name])


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
