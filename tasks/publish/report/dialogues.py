"""Dialogues in the page: the messages of a conversation with the calls in them, scores by turn, and the steps.

What was said before a row's first turn, where its dataset gives that, stands apart: models that were asked the same
have one history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from leadline.evaluators.data import MadeCall, Messages, calls_of, dialogue_of, turns_of
from leadline.evaluators.data.messages import DialogueLine
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
    return found, [_drawn(dialogue_of(orjson.loads(before)), text) for before in histories]


def _dialogue(messages: Messages, text: int) -> dict[str, Any]:
    """Return the messages that are drawn, with the turn of each."""
    lines = dialogue_of(messages)
    return {
        "messages": _drawn(lines[:MOST_MESSAGES], text),
        "turns": [line.turn for line in lines[:MOST_MESSAGES]],
        "more": max(0, len(lines) - MOST_MESSAGES),
    }


def _drawn(lines: Iterable[DialogueLine], text: int) -> list[list[Any]]:
    """Return messages as ``[role, text, calls, name]``."""
    return [
        [
            message["role"],
            _cut(message["content"], text),
            [_call(call, text) for call in calls],
            message.get("name", ""),
        ]
        for message, calls, _, _ in lines
    ]


def _call(call: MadeCall, text: int) -> list[Any]:
    arguments = orjson.dumps(call.arguments, default=str).decode()
    return [call.name, _cut(arguments, text), _cut(call.result, text), call.error]


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
