"""Figures of the ledger, in SQLite and PostgreSQL: calls by model and state, and what teams spent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from leadline.evaluators.judge_client.budget import Limits, TeamBudget, month_of
from leadline.evaluators.judge_client.calls import Charge, Reply
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.figures import ledger_figures
from leadline.tasks.ledger.ledger import ledger_at
from leadline.tasks.ledger.ledger_report import LedgerReader
from tests.support.judges.scripted_judge import question
from tests.support.stores.ledgers import Place

REPLY = Reply("yes", input_tokens=10, output_tokens=2, cost_usd=0.25, seconds=1.5, tries=3)


def test_calls_errors_tokens_money_and_teams_are_told(place: Place) -> None:
    async def main() -> None:
        ledger = ledger_at(place, "run1", Limits(team=TeamBudget("search", calls=50)))
        for name in ("a", "b", "c", "d"):
            await ledger.intend(question(name), Charge(1.0))
        await ledger.answered(question("a"), REPLY)
        await ledger.answered(question("b"), replace(REPLY, cost_usd=None))
        await ledger.failed(question("c"), "a reason with a text")
        await ledger.judged(question("b").digest, "1", None, "no word")

    asyncio.run(main())
    budgets = {"search": TeamBudget("search", calls=50), "ads": TeamBudget("ads", cost_usd=5.0)}
    figures = ledger_figures(LedgerReader(place), budgets).values
    (model,) = {labels[0] for labels in figures[m.CALLS]}
    assert figures[m.CALLS] == {(model, "answered"): 2, (model, "failed"): 1}
    assert figures[m.CALL_TOKENS] == {(model, "input"): 20, (model, "output"): 4}
    assert figures[m.CALL_COST][model,] == 0.25
    assert figures[m.CALLS_UNPRICED][model,] == 1
    assert figures[m.CALL_RETRIES][model,] == 4
    assert figures[m.CALL_SECONDS][model,] == 3.0
    assert (figures[m.CALLS_IN_FLIGHT][()], figures[m.CALLS_LOST][()]) == (1, 0)
    assert figures[m.REPLIES_UNREADABLE][()] == 1
    assert figures[m.TEAM_CALLS] == {("search",): 3}
    assert figures[m.TEAM_CALLS_LIMIT] == {("search",): 50}
    assert figures[m.TEAM_USD_LIMIT] == {("ads",): 5.0}
    assert "text" not in repr(figures)
    assert month_of(time.time())


def test_a_ledger_that_is_not_there_has_no_calls(place: Place) -> None:
    figures = ledger_figures(LedgerReader(place), {}).values
    assert figures[m.CALLS_LOST][()] == 0
    assert m.CALLS not in figures
