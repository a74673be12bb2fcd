"""Budgets of conversations with agents: steps, tokens, seconds and money, with limits if somebody sets them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field

from leadline.evaluators.core import INF, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, NotApplicable, Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.ground import listing, number

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
