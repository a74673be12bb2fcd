"""Evaluators of tool calls on many turns, against a bare loop that compares the same calls.

Run: ``python -m benchmarks.tool_calls [TURNS]`` (100,000 by default). A turn calls one to six tools of ten; of the
expected calls some are missing, some have other arguments, some are doubled. The loop counts equal calls as a script
would, with a multiset of their JSON: no matching in part, no order, no evidence. All is in one process.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter

from benchmarks.machine import describe, timed
from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ExpectedCall, Json, MadeCall, Row

EVALUATORS = (
    "tool_call_f1",
    "tool_trajectory_match",
    "tool_arguments",
    "tool_errors",
    "step_efficiency",
    "agent_loops",
    "budgets",
)


def make_rows(turns: int, seed: int = 7) -> list[Row]:
    """Return rows of one turn each, with the calls that were made and those that are expected."""
    draw = random.Random(seed)
    rows = []
    for number in range(turns):
        wanted: list[tuple[str, dict[str, Json]]] = [
            (f"tool_{draw.randrange(10)}", {"id": draw.randrange(50), "day": "mon"}) for _ in range(draw.randint(1, 6))
        ]
        made: list[tuple[str, dict[str, Json]]] = []
        for name, arguments in wanted:
            chance = draw.random()
            if chance > 0.1:
                made.append((name, arguments if chance > 0.2 else {**arguments, "day": "tue"}))
            if chance > 0.95:
                made.append((name, arguments))
        calls = [MadeCall(name, given, "ok", None, place, 1) for place, (name, given) in enumerate(made)]
        expected: list[ExpectedCall] = [{"name": name, "arguments": given} for name, given in wanted]
        rows.append(Row(f"c{number}", "m", tool_calls=calls, expected_tool_calls=expected))
    return rows


def bare_loop(rows: list[Row]) -> float:
    """Return the mean F1 of equal calls."""
    total = 0.0
    for row in rows:
        made = Counter((call.name, json.dumps(call.arguments, sort_keys=True)) for call in row.tool_calls or ())
        expected = row.expected_tool_calls or ()
        wanted = Counter((call["name"], json.dumps(call["arguments"], sort_keys=True)) for call in expected)
        total += 2 * (made & wanted).total() / (made.total() + wanted.total())
    return total / len(rows)


def main() -> None:
    """Print the turns a second of each evaluator, and of the loop."""
    rows = make_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    print(f"{describe()}; {len(rows):,} turns")
    with timed() as timing:
        plain = bare_loop(rows)
    bare = timing.seconds
    print(f"bare loop: {bare:.2f} s, {len(rows) / bare:,.0f} turns/s")
    get(EVALUATORS[0])().score(make_rows(20), EvalContext())  # loads scipy
    for name in EVALUATORS:
        with timed() as timing:
            scores = get(name)().score(rows, EvalContext())
        times = timing.seconds / bare
        print(f"{name}: {timing.seconds:.2f} s, {len(rows) / timing.seconds:,.0f} turns/s, {times:.1f} times the loop")
        if name == "tool_call_f1":
            found = [value for score in scores if isinstance(value := score.values[name], float)]
            print(f"difference of the mean F1: {abs(sum(found) / len(rows) - plain):.1e}")


if __name__ == "__main__":
    main()
