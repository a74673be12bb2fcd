"""Dialogues in the page: the messages of a conversation with the calls in them, scores by turn, and the steps.

What was said before a row's first turn, where its dataset gives that, stands apart: models that were asked the same
have one history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from leadline.evaluators.data import Messages, calls_of, turns_of
from leadline.tasks.db import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_MESSAGES: Final = 200
"""Messages of a conversation that the page draws."""

MOST_STEPS: Final = 200
LONGEST: Final = 2_000_000
"""Characters of a conversation's JSON that is read to be drawn."""


def dialogues(
    connection: DuckDBPyConnection, at: Mapping[int, int], metrics: Mapping[int, int], text: int
) -> tuple[dict[int, dict[str, Any]], list[list[Any]]]:
    """Return the dialogues of the page's rows, by their places, and the histories that they name by number.

    A question with its answer, without calls and steps, is no dialogue; it may have a history.

    Args:
        at: Places of the rows by id.
        metrics: Places of the metrics by id.
        text: Characters of a message that are shown.
    """
    scores: defaultdict[int, dict[int, list[Any]]] = defaultdict(dict)
    for metric_id, row_id, values in connection.execute(sql("publish/page_turn_scores")).fetchall():
        if metric_id in metrics and row_id in at:
            scores[row_id][metrics[metric_id]] = values
    found: dict[int, dict[str, Any]] = {}
    histories: dict[str, int] = {}
    talks = connection.execute(sql("publish/page_talks"), {"longest": LONGEST}).fetchall()
    for row_id, messages, steps, before in talks:
        if row_id not in at:
            continue
        told = orjson.loads(messages) if messages else []
        talk = {
            "history": histories.setdefault(before, len(histories)) if before else None,
            "long": messages is None,
            "scores": scores[row_id],
            "steps": _steps(orjson.loads(steps)) if steps else [],
        }
        if talk["long"] or talk["steps"] or len(turns_of(told)) > 1 or calls_of(told):
            found[at[row_id]] = talk | _dialogue(told, text)
        elif before:
            found[at[row_id]] = talk | _dialogue([], text)
    return found, [_messages(orjson.loads(before), text)[1] for before in histories]


def _dialogue(messages: Messages, text: int) -> dict[str, Any]:
    """Return the messages that are drawn, with the turn of each."""
    places, shown = _messages(messages, text)
    starts = [turn.first for turn in turns_of(messages)]
    return {
        "messages": shown[:MOST_MESSAGES],
        "turns": [sum(start <= place for start in starts) for place in places[:MOST_MESSAGES]],
        "more": max(0, len(shown) - MOST_MESSAGES),
    }


def _messages(messages: Messages, text: int) -> tuple[list[int], list[list[Any]]]:
    """Return the messages as ``[role, text, calls, name]``, with their positions.

    Those of tools stand within the calls that they answer.
    """
    calls: defaultdict[int, list[Any]] = defaultdict(list)
    for call in calls_of(messages):
        arguments = orjson.dumps(call.arguments, default=str).decode()
        calls[call.message].append([call.name, _cut(arguments, text), _cut(call.result, text), call.error])
    answered = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    shown = [
        (place, [message["role"], _cut(message["content"], text), calls[place], message.get("name", "")])
        for place, message in enumerate(messages)
        if message["role"] != "tool" or message.get("tool_call_id") not in answered
    ]
    return [place for place, _ in shown], [message for _, message in shown]


def _steps(steps: list[Any]) -> list[list[Any]]:
    """Return the steps as ``[kind, name, start, duration, depth, tokens, error]``; times in milliseconds."""
    parents = {step["step"]: step.get("parent") for step in steps}
    depths: dict[int, int] = {}
    for number in sorted(parents):
        parent = parents[number]
        depths[number] = 0 if parent is None else depths.get(parent, -1) + 1
    return [
        [
            step["kind"],
            _cut(step["name"], 80),
            step.get("start_ms", 0),
            step.get("duration_ms", 0),
            min(depths[step["step"]], 12),
            (step.get("input_tokens") or 0) + (step.get("output_tokens") or 0),
            step.get("error"),
        ]
        for step in steps[:MOST_STEPS]
    ]


def _cut(text: str | None, most: int) -> str | None:
    if text is None or len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters)"
