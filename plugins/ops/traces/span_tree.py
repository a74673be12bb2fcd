"""The spans of a run as a tree: the run, its parts, their steps, lanes and chunks; made from its timeline.

No span holds a text of the dataset, a question or a reply: names are those of steps, chunks and evaluators.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.tasks.ground.timeline import SCORE, TimeSpan

MOST: Final = 5_000
"""Spans that are exported of a run; judge calls beyond are left out first, then chunks."""

Value = str | int | float | bool


@dataclass(slots=True)
class Node:
    """A span with those within it.

    Attributes:
        name: What was done.
        began: In microseconds since 1970.
        ended: The same.
        attributes: What is known of it.
        events: Events within it, each with its attributes.
        children: Spans within it.
    """

    name: str
    began: int
    ended: int
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[tuple[str, int, dict[str, Value]]] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


def tree_of(
    spans: Sequence[TimeSpan],
    lanes: Sequence[TimeSpan],
    attributes: Mapping[str, Value],
    asked: Sequence[Mapping[str, Any]] = (),
    calls: Sequence[Mapping[str, Any]] = (),
) -> Node:
    """Return the tree of a run's spans.

    Args:
        spans: Those of its timeline.
        lanes: When each lane of scoring was at work.
        attributes: What is known of the run.
        asked: Sums over its judge calls by evaluator, which become an event each.
        calls: Lines of ``ledger/call_times``; each becomes a span.
    """
    parts = [
        _node(span, **{"leadline.kind": "part"}) for span in spans if span.kind == "part" and span.ended > span.began
    ]
    parts.sort(key=lambda part: part.began)
    began = min((part.began for part in parts), default=0)
    ended = max((part.ended for part in parts), default=0)
    root = Node("leadline.run", began, ended, dict(attributes), children=parts)
    for step in (span for span in spans if span.kind == "step"):
        _within(parts, step.began, root).children.append(_node(step, **{"leadline.kind": "step"}))
    score = next((part for part in reversed(parts) if part.name == SCORE), root)
    by_lane = {lane.name: _node(lane, f"lane {lane.name}", **{"leadline.lane": lane.name}) for lane in lanes}
    score.children += by_lane.values()
    room = MOST - len(parts) - len(by_lane)
    for chunk in [span for span in spans if span.kind == "chunk"][:room]:
        lane = by_lane.get(chunk.name.partition("-")[0], score)
        lane.children.append(_node(chunk, **{"leadline.kind": "chunk", "leadline.process": chunk.process}))
        room -= 1
    for sums in asked:
        known = {f"leadline.{name}": value for name, value in sums.items() if isinstance(value, str | int | float)}
        by_lane.get("judge", score).events.append(("judge calls", score.ended, known))
    for call in calls[: max(0, room)]:
        by_lane.get("judge", score).children.append(_call(call))
    return root


def _node(span: TimeSpan, name: str = "", **attributes: Value) -> Node:
    return Node(name or span.name, span.began, span.ended, attributes)


def _call(call: Mapping[str, Any]) -> Node:
    began = round(call["intended_at"] * 1e6)
    known = {f"leadline.{name}": call[name] for name in ("state", "tries") if call[name] is not None}
    return Node(f"call {call['purpose']}", began, max(began, round(call["ended_at"] * 1e6)), known)


def _within(parts: Sequence[Node], moment: int, root: Node) -> Node:
    """Return the part that was on at a moment."""
    at = bisect_right([part.began for part in parts], moment) - 1
    return parts[at] if at >= 0 else root
