"""The efficiency of agents: calls made beside those needed, calls made again and again, and what all of it took."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated, Final

from pydantic import Field

from leadline.evaluators.agent.call_matching import MOST_SHOWN, ReadOnlyParams, call_span, shown_call
from leadline.evaluators.core import INF, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, MadeCall, NotApplicable, Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.ground import count, listing, number

LONGEST_CYCLE: Final = 4
"""Calls of a stretch that is looked for as a cycle."""

TIMES: Final = 3
"""Times that a stretch of calls must stand in a row to be a cycle."""


def same_call(call: MadeCall) -> Hashable:
    """Return what is equal for calls of the same tool with the same arguments: 1 equals 1.0, and true is not 1."""
    return call.name, json.dumps(_numbers_alike(call.arguments), sort_keys=True)


def _numbers_alike(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _numbers_alike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers_alike(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _told(calls: Sequence[MadeCall], numbers: Sequence[int], what: str) -> Evidence:
    """Return the evidence of calls that say too much, counted by what they are."""
    times = Counter(shown_call(calls[number]) for number in numbers)
    shown = [f"{name} {count(n, 'time')}" for name, n in times.items()]
    message = f"{count(len(numbers), f'{what} call')}: {listing(shown, most=4)}." if shown else ""
    return Evidence(message, tuple(call_span(calls, number, what) for number in numbers[:MOST_SHOWN]))


@register
class StepEfficiency(RowEvaluator):
    """Efficiency of an agent's steps: the number of expected calls over those made, and calls made for nothing.

    **Method.** With C calls and E expected ones, ``step_efficiency`` = min(1, E / C): twice as many calls as needed
    make 0.5. Whether they are the right ones is said by ``tool_call_f1``. ``redundant_calls`` = calls equal to an
    earlier one, in tool and arguments, between which and the earlier one nothing was called that may change
    something / C. What changes nothing is said by the dataset (a tool's ``read_only``) and by ``read_only_tools``;
    every other tool may change something, and so make a second look worth while.

    **Edge cases.** Where no call is expected the efficiency is 1 without a call and 0 with any. Where calls are
    expected and none was made it is not applicable: nothing was done, efficiently or not. Without expected calls known
    only ``redundant_calls`` is. Calls that only read are steps like others.

    **Source.** Leadline; Azure AI evaluation, task navigation efficiency; step efficiency in DeepEval asks a judge.
    """

    spec = Spec(
        id="step_efficiency",
        name="Step Efficiency",
        inputs=(RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS),
        optional=frozenset({RowField.EXPECTED_TOOL_CALLS}),
        also_reads=(RowField.TOOLS,),
        unit="conversation",
        metrics=(
            Metric.higher("step_efficiency", "Expected calls over calls made, at most 1.", primary=True),
            Metric.lower(
                "redundant_calls", "Share of the calls that repeat one when nothing has changed.", threshold=0.25
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "agent", "steps", "efficiency", "redundancy", "rule-based"),
        source="Leadline: expected calls over calls made; Azure AI evaluation, task navigation efficiency",
    )
    parameters = ReadOnlyParams
    params: ReadOnlyParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the efficiency, and which calls are redundant."""
        calls, expected = row.tool_calls or (), row.expected_tool_calls
        harmless, again, seen = self.params.read_only(row), [], set[Hashable]()
        for place, call in enumerate(calls):
            what = same_call(call)
            if what in seen:
                again.append(place)
            elif call.name not in harmless:
                seen.clear()
            seen.add(what)
        efficiency: float | NotApplicable = NotApplicable("Calls are expected and none was made, or none are known.")
        if expected is not None and (calls or not expected):
            efficiency = min(1.0, len(expected) / len(calls)) if calls else 1.0
        redundant = len(again) / len(calls) if calls else NotApplicable("No tool was called.")
        return RowScore({"step_efficiency": efficiency, "redundant_calls": redundant}, _told(calls, again, "redundant"))


@register
class AgentLoops(RowEvaluator):
    """Loops of an agent: calls that are made again with the same result, and stretches of calls that go round.

    **Method.** A call is repeated where an earlier one has the same tool, arguments, result and error: asking again
    taught nothing. It is repeated, too, where it is in the second or a later round of a cycle: a stretch of two to four
    calls that do not all have the same tool and arguments, three times in a row or more, whatever they return.
    ``agent_loops`` = 1 - repeated calls / (calls - 1). ``longest_run`` is the most calls in a row that are the same and
    have the same result.

    **Edge cases.** With one call or none the value is 1. Polling is no loop while its results differ. An equal result
    where none is recorded counts as equal: what came back is not known to differ.

    **Source.** Leadline. DeepEval's loop detection leaves the results out of account, so that polling trips it.
    """

    spec = Spec(
        id="agent_loops",
        name="Agent Loops",
        inputs=(RowField.TOOL_CALLS,),
        unit="conversation",
        metrics=(
            Metric.higher("agent_loops", "1 less the share of calls that repeat others to no avail.", primary=True),
            Metric.lower(
                "longest_run", "Most equal calls in a row with equal results.", range=(0.0, INF), threshold=3.0
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "agent", "loops", "repetition", "cycles", "rule-based"),
        source="Leadline: repeated calls with equal results, and cycles of calls",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the share of calls that repeat nothing, and the longest run."""
        calls = row.tool_calls or ()
        made = [same_call(call) for call in calls]
        whole = [(what, call.result, call.error) for what, call in zip(made, calls, strict=True)]
        earlier, repeated = set[Hashable](), in_cycles(made)
        run = longest = 0
        for place, what in enumerate(whole):
            if what in earlier:
                repeated.add(place)
            earlier.add(what)
            run = run + 1 if place and what == whole[place - 1] else 1
            longest = max(longest, run)
        share = len(repeated) / (len(calls) - 1) if len(calls) > 1 else 0.0
        return RowScore(
            {"agent_loops": 1 - share, "longest_run": float(longest)}, _told(calls, sorted(repeated), "repeated")
        )


def in_cycles(made: Sequence[Hashable]) -> set[int]:
    """Return the places in the second or a later round of a stretch that stands three times in a row or more.

    Args:
        made: What was called; equal for equal calls.
    """
    found: set[int] = set()
    for period in range(2, LONGEST_CYCLE + 1):
        length = 0  # of the stretch in which each call equals the one a period before
        for place in range(period, len(made) + 1):
            if place < len(made) and made[place] == made[place - period]:
                length += 1
                continue
            first = place - length
            if length >= (TIMES - 1) * period and len(set(made[first - period : first])) > 1:
                found.update(range(first, place))
            length = 0
    return found


_UNKNOWN: Final = NotApplicable("Nobody recorded it.")


class BudgetParams(Params):
    """Limits of a conversation; without one a quantity is only told."""

    max_tool_calls: Annotated[int | None, Field(ge=0, description="Most calls of tools.")] = None
    max_llm_calls: Annotated[int | None, Field(ge=0, description="Most calls of language models.")] = None
    max_tokens: Annotated[int | None, Field(ge=0, description="Most tokens, sent and received.")] = None
    max_seconds: Annotated[float | None, Field(ge=0, description="Most seconds.")] = None
    max_cost_usd: Annotated[float | None, Field(ge=0, description="Most US dollars.")] = None


@register
class Budgets(RowEvaluator):
    """Budgets of a conversation: calls of tools and models, tokens, seconds and dollars, and whether they kept limits.

    **Method.** ``tool_calls`` are counted in the conversation, ``llm_calls`` are its recorded steps of the kind
    ``llm``. Tokens (sent and received), seconds and dollars are the row's own, as the dataset has them. Where it has
    none they are taken from the recorded steps: tokens and dollars are the sums over the steps of the kind ``llm``,
    since those around them often repeat their sums; seconds are the time from the first step's start to the last end.

    ``within_budget`` is 1 where every quantity is within its limit (``max_tokens``, …), limits included, else 0.

    **Edge cases.** Without limits, which is the default, ``within_budget`` is not applicable: the others are
    information. A quantity that nobody recorded is not applicable, and cannot break a limit; where none of the limited
    ones is known ``within_budget`` is not applicable either. One that is negative or infinite is unscorable.

    **Source.** Leadline; limits of messages, tokens, time and cost of a sample as in Inspect.
    """

    spec = Spec(
        id="budgets",
        name="Budgets",
        inputs=(RowField.TOOL_CALLS,),
        also_reads=(
            RowField.DURATION_S,
            RowField.COST_USD,
            RowField.INPUT_TOKENS,
            RowField.OUTPUT_TOKENS,
            RowField.STEPS,
        ),
        unit="conversation",
        metrics=(
            Metric.higher("within_budget", "Share of conversations that keep every limit.", primary=True, share=True),
            Metric.lower("tool_calls", "Calls of tools.", range=(0.0, INF), threshold=None),
            Metric.lower("llm_calls", "Calls of language models.", name="LLM calls", range=(0.0, INF), threshold=None),
            Metric.lower("tokens", "Tokens sent and received.", range=(0.0, INF), threshold=None),
            Metric.lower("seconds", "Duration in seconds.", range=(0.0, INF), threshold=None),
            Metric.lower("cost_usd", "Price in US dollars.", name="Cost in USD", range=(0.0, INF), threshold=None),
        ),
        insight_type="cost",
        problem_type="cost",
        keywords=("agent", "steps", "tokens", "time", "price", "limits", "rule-based"),
        source="Leadline: sums over the recorded steps; UK AI Security Institute, Inspect, sample limits",
    )
    parameters = BudgetParams
    params: BudgetParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the quantities, and whether all are within their limits."""
        limits = self.params
        llm = None if row.steps is None else [step for step in row.steps if step["kind"] == "llm"]
        own_tokens = [each for each in (row.input_tokens, row.output_tokens) if each is not None]
        of_steps = [n for step in llm or () for n in (step.get("input_tokens"), step.get("output_tokens"))]
        ends = [
            (step["start_ms"] / 1000, (step["start_ms"] + step.get("duration_ms", 0.0)) / 1000)
            for step in row.steps or ()
            if "start_ms" in step
        ]
        lasted = max(end for _, end in ends) - min(start for start, _ in ends) if ends else None
        spent: dict[str, tuple[float | None, float | None]] = {
            "tool_calls": (len(row.tool_calls or ()), limits.max_tool_calls),
            "llm_calls": (None if llm is None else len(llm), limits.max_llm_calls),
            "tokens": (_sum(own_tokens) if own_tokens else _sum(of_steps), limits.max_tokens),
            "seconds": (lasted if row.duration_s is None else row.duration_s, limits.max_seconds),
            "cost_usd": (
                _sum(step.get("cost_usd") for step in llm or ()) if row.cost_usd is None else row.cost_usd,
                limits.max_cost_usd,
            ),
        }
        values: dict[str, float | Unscored | NotApplicable] = {
            name: _value(found) for name, (found, _) in spent.items()
        }
        held = {
            name: (found, limit)
            for name, (found, limit) in spent.items()
            if limit is not None and found is not None and isinstance(values[name], float)
        }
        over = [f"{name} {number(found)} of {number(limit)}" for name, (found, limit) in held.items() if found > limit]
        values["within_budget"] = float(not over) if held else NotApplicable("No limit is set for what is recorded.")
        return RowScore(values, Evidence(f"Over the limit: {listing(over)}." if over else ""))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _value(found: float | None) -> float | Unscored | NotApplicable:
    if found is None:
        return _UNKNOWN
    if not math.isfinite(found) or found < 0:
        return Unscored(Reason.UNSCORABLE, f"{found} is no quantity that can be spent.")
    return float(found)
