"""Questions and answers that come in the shape of a conversation."""

from __future__ import annotations

from typing import Any, Final

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.values import ValueFault, as_json, expected, filled, text

_USERS: Final = frozenset({"user", "human"})


def last_user_message(faults: Faults, place: Place, column: str, value: Any) -> str | None:
    """Return the question in a text, a list of messages, or an object with ``messages`` or ``query``.

    Of a conversation the last message of the user counts, as in Databricks' evaluation sets. Any other object
    is the question itself, as JSON.

    Args:
        faults: Takes the fault of a value that cannot be read.
        place: Where the value is.
        column: Its column.
        value: The value.
    """
    try:
        if value is None or isinstance(value, str):
            return filled(value or "")
        if isinstance(value, dict):
            messages = value.get("messages")
            if messages is None:
                query = value.get("query")
                return filled(query if isinstance(query, str) else as_json(value))
            value = messages
        if not isinstance(value, list):
            raise expected("a text or messages", value)
        texts = [message for message in map(_message, value) if message and message[0] in _USERS]
        if not texts:
            raise ValueFault("the conversation has no message of the user")
        return filled(texts[-1][1])
    except ValueFault as error:
        faults.add(place, column, str(error))
        return None


def reply(faults: Faults, place: Place, column: str, value: Any) -> str | None:
    """Return the answer in a text, a chat completion, a list of messages, or any other object as JSON.

    Args:
        faults: Takes the fault of a value that cannot be read.
        place: Where the value is.
        column: Its column.
        value: The value; ``None`` is no answer.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            choices = value.get("choices")
            if isinstance(choices, list) and choices and isinstance(choices[0], dict):
                message = _message(choices[0].get("message"))
                if message:
                    return message[1]
            messages = value.get("messages")
            value = messages if isinstance(messages, list) else value
        if isinstance(value, list):
            texts = [message for message in map(_message, value) if message]
            if texts:
                return texts[-1][1]
        if isinstance(value, dict | list):
            return text(as_json(value))
        raise expected("a text or a chat completion", value)
    except ValueFault as error:
        faults.add(place, column, str(error))
        return None


def _message(message: Any) -> tuple[str, str] | None:
    """Return a message's role and text: OpenAI's ``role`` and ``content``, LangChain's ``type`` and ``content``."""
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return None
    return str(message.get("role") or message.get("type") or ""), text(content)
