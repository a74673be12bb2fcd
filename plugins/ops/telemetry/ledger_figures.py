"""Figures of the ledger: calls, errors, tokens, money, and what teams spent."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from leadline.evaluators.judge_client.budget import TeamBudget, month_of
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import Figures, few, label
from leadline.tasks.ledger.ledger_report import LedgerReader


def ledger_figures(ledger: LedgerReader, budgets: Mapping[str, TeamBudget]) -> Figures:
    """Return the figures of a ledger.

    Args:
        budgets: The teams' budgets, for their limits.
    """
    figures = Figures()
    _put_calls(figures, ledger.by_model())
    lost = len(ledger.lost())
    figures.put(m.CALLS_LOST, lost)
    figures.put(m.CALLS_IN_FLIGHT, max(0, ledger.open_calls() - lost))
    figures.put(m.REPLIES_UNREADABLE, ledger.unreadable())
    for line in ledger.teams(month_of(time.time())):
        figures.put(m.TEAM_CALLS, line["calls"], label(line["team"]))
        figures.put(m.TEAM_USD, line["usd"], label(line["team"]))
    for team, budget in budgets.items():
        if budget.calls is not None:
            figures.put(m.TEAM_CALLS_LIMIT, budget.calls, label(team))
        if budget.cost_usd is not None:
            figures.put(m.TEAM_USD_LIMIT, budget.cost_usd, label(team))
    return figures


def _put_calls(figures: Figures, lines: list[dict[str, Any]]) -> None:
    """Note the calls by model; of many models, those with the most calls by name."""
    labels = few([line["model"] for line in lines])
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in lines:
        for name, value in line.items():
            if name != "model":
                sums[labels[line["model"]]][name] += value
    for model, line in sums.items():
        for state in ("answered", "failed"):
            figures.put(m.CALLS, line[state], model, state)
        figures.put(m.CALL_RETRIES, line["retries"], model)
        figures.put(m.CALL_SECONDS, line["seconds"], model)
        figures.put(m.CALL_TOKENS, line["input_tokens"], model, "input")
        figures.put(m.CALL_TOKENS, line["output_tokens"], model, "output")
        figures.put(m.CALL_COST, line["cost_usd"], model)
        figures.put(m.CALLS_UNPRICED, line["unpriced"], model)
