"""Questions and answers that come in the shape of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leadline.evaluators.data import Role
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.messages import known_role, role_of
from leadline.tasks.load.values import ValueFault, as_json, expected, filled, listed, text


class Asked(NamedTuple):
    """The question of a conversation.

    Attributes:
        question: The user's last message; ``None`` where there is none.
        before: The conversation up to it, as JSON, by which conversations that end alike are told apart; ``None``
            where the question is all of it.
    """

    question: str | None
    before: str | None = None


def last_user_message(faults: Faults, place: Place, column: str, value: Any) -> Asked:
    """Return the question in a text, a list of messages, or an object with ``messages`` or ``query``.

    Of a conversation the last message of the user counts, as in Databricks' evaluation sets. Any other object
    is the question itself, as JSON.
    """
    try:
        if value is None or isinstance(value, str):
            return Asked(filled(value or ""))
        if isinstance(value, dict):
            messages = value.get("messages")
            if messages is None:
                value = _argument(value)
                if isinstance(value, str):
                    return Asked(filled(value))
                messages = value if isinstance(value, list) else value.get("messages")
            if messages is None:
                query = value.get("query")
                return Asked(filled(query if isinstance(query, str) else as_json(value)))
            value = messages
        if not isinstance(value, list):
            raise expected("a text or messages", value)
        _check_roles(value)
        places = [number for number, message in enumerate(value) if _is_of(message, "user") and _said(message)]
        if not places:
            raise ValueFault("the conversation has no message of the user")
        question = filled(_said(value[places[-1]]) or "")
        return Asked(question, as_json([_told(message) for message in value[: places[-1] + 1]]) if places[-1] else None)
    except ValueFault as error:
        faults.add(place, column, str(error))
        return Asked(None)


def _argument(value: dict[str, Any]) -> Any:
    """Return what a function was called with, where Langfuse records a call and it had one argument; else the value."""
    if not {"args"} <= value.keys() <= {"args", "kwargs"}:
        return value
    given = [*listed(value["args"] or []), *(value.get("kwargs") or {}).values()]
    return given[0] if len(given) == 1 and isinstance(given[0], str | list | dict) else value


def answer_within(value: Any) -> str | None:
    """Return the answer that ends a conversation, ``None`` where it ends with a question or is none."""
    messages = value.get("messages") if isinstance(value, dict) else value
    return _answer(messages) if isinstance(messages, list) and all(map(_is_message, messages)) else None


def reply(faults: Faults, place: Place, column: str, value: Any) -> str | None:
    """Return the answer in a text, a chat completion, a list of messages, or any other object as JSON.

    Of messages it is the last text of the assistant after the user's last message; what a tool returned is none.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            choices = value.get("choices")
            chosen = choices[0] if isinstance(choices, list) and choices else None
            if isinstance(chosen, dict) and _is_message(chosen.get("message")):
                return _said(chosen["message"])
            messages = value.get("messages")
            value = messages if isinstance(messages, list) else value
        if isinstance(value, list) and any(map(_is_message, value)):
            _check_roles(value)
            return _answer(value)
        if isinstance(value, dict | list):
            return text(as_json(value))
        raise expected("a text or a chat completion", value)
    except ValueFault as error:
        faults.add(place, column, str(error))
        return None


def _check_roles(messages: list[Any]) -> None:
    """Refuse a message whose role is no known one; one without any is an answer."""
    for number, message in enumerate(messages, start=1):
        try:
            if isinstance(message, dict) and _named_role(message):
                known_role(message)
        except ValueFault as error:
            raise ValueFault(f"message {number}: {error}") from None


def _answer(messages: list[Any]) -> str | None:
    """Return the last text of the assistant after the last message of the user."""
    for message in reversed(messages):
        if _is_of(message, "user"):
            return None
        if _is_of(message, "assistant") and (said := _said(message)):
            return said
    return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and ("content" in value or "tool_calls" in value)


def _is_of(message: Any, role: Role) -> bool:
    """Return whether a message is of a role; one that names none is an answer."""
    if not isinstance(message, dict):
        return False
    return (role_of(message) or ("assistant" if not _named_role(message) else None)) == role


def _named_role(message: dict[str, Any]) -> str:
    return str(message.get("role") or message.get("type") or "").lower()


def _said(message: Mapping[str, Any]) -> str | None:
    """Return a message's text, or the texts of its parts; ``None`` where it has none."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return text(content) if isinstance(content, str) else None


def _told(message: Any) -> Any:
    """Return what is told in a message, without ids, which are drawn at random."""
    if not isinstance(message, dict):
        return message
    calls = message.get("tool_calls")
    called = [call.get("function") or call.get("name") for call in calls if isinstance(call, dict)] if calls else []
    return [_named_role(message), message.get("content"), called]
