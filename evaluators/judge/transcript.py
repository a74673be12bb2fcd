"""A conversation as judges read it: each message, call and result is a piece of its own.

Every piece gets a fence of its own (see :mod:`.prompting`), so that a text which imitates the next message, or a
tool's result that gives the judge orders, stays a part of its piece. Calls are numbered as they are shown, and a result
has the number of its call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from leadline.evaluators.data import Json, MadeCall, Messages

LONGEST_RESULT: Final = 2_000
"""Characters of a tool's result that a judge reads; what is cut off is told."""

_SPARED: Final = 60
"""Characters that are not worth cutting off: telling of it takes as many, as where loading has cut already."""


class TranscriptPiece(NamedTuple):
    """A piece of a conversation: a text with its label, and what is to be told of it outside of its fence."""

    label: str
    text: str
    remark: str = ""


def pieces_of(messages: Messages, prefix: str = "", *, reasoning: bool = False) -> Iterator[TranscriptPiece]:
    """Yield the pieces of a conversation, or of a part of it, in order.

    Args:
        prefix: What all labels begin with, where a prompt shows two parts.
        reasoning: Whether to show what the assistant thought, which the user does not see.
    """
    numbers: dict[str, int] = {}
    for place, message in enumerate(messages, start=1):
        if message["role"] == "tool":
            number = numbers.get(message.get("tool_call_id", ""))
            yield from _result(number, prefix, message["content"], message.get("error"))
            continue
        if reasoning and message.get("reasoning"):
            yield TranscriptPiece(f"{prefix}thoughts-{place}", message["reasoning"])
        calls = message.get("tool_calls", ())
        if message["content"] or not calls:
            yield TranscriptPiece(f"{prefix}{message['role']}-{place}", message["content"])
        for call in calls:
            number = numbers[call["id"]] = len(numbers) + 1
            yield TranscriptPiece(f"{prefix}call-{number}", call_text(call["name"], call["arguments"]))


def pieces_of_calls(calls: Sequence[MadeCall]) -> Iterator[TranscriptPiece]:
    """Yield for each call a piece, and its result with what failed."""
    for number, call in enumerate(calls, start=1):
        no_result = call.result is None and call.error is None
        remark = "(No result is recorded.)" if no_result else ""
        yield TranscriptPiece(f"call-{number}", call_text(call.name, call.arguments), remark)
        if not no_result:
            yield from _result(number, "", call.result or "", call.error)


def _result(number: int | None, prefix: str, text: str, error: str | None) -> Iterator[TranscriptPiece]:
    """Yield a result, and what failed; without a number where its call is not shown."""
    which = "" if number is None else f"-{number}"
    for name, said in (("result", text), ("error", error)):
        if said is not None:
            left = len(said) - LONGEST_RESULT
            if left <= _SPARED:
                yield TranscriptPiece(f"{prefix}{name}{which}", said)
                continue
            remark = f"(It is cut here: {left:,} more characters are not shown.)"
            yield TranscriptPiece(f"{prefix}{name}{which}", said[:LONGEST_RESULT], remark)


def call_text(name: str, arguments: Json) -> str:
    """Return a call as one line: the tool's name and its arguments in JSON."""
    return f"{name} {as_json_text(arguments)}"


def as_json_text(value: Json) -> str:
    """Return a value as JSON that people can read."""
    return json.dumps(value, ensure_ascii=False, default=str)
