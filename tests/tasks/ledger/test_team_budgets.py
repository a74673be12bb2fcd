"""A team's monthly budget in the ledger: exact across its runs and processes, and renewed with the month."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.budget import Limits, TeamBudget, month_of, renewal
from leadline.evaluators.judge_client.calls import BudgetSpent, Charge, Reply
from leadline.evaluators.settings import Settings
from leadline.tasks.ledger.ledger import DatabaseLedger, ledger_at
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.operations import Account, Change, End, perform
from leadline.tasks.plan.jobs import read_limits, write_jobs
from tests.support.judges.scripted_judge import question
from tests.support.stores.ledgers import Place, admitted

REPLY = Reply("yes", cost_usd=0.25)
BEGIN = (
    "import asyncio, sys\n"
    "from leadline.evaluators.judge_client.budget import Charge, Limits, TeamBudget\n"
    "from leadline.evaluators.judge_client.calls import BudgetSpent\n"
    "from leadline.tasks.ledger.ledger import ledger_at\n"
    "from tests.support.judges.scripted_judge import question\n"
    "from tests.support.stores.ledgers import named\n"
    "async def main():\n"
    "    ledger = ledger_at(named(sys.argv[1]), sys.argv[2], Limits(team=TeamBudget('search', calls=50)))\n"
    "    found = await asyncio.gather(*(ledger.intend(question(f'{sys.argv[2]} {n}'), Charge(0.01))"
    " for n in range(40)), return_exceptions=True)\n"
    "    assert all(each is None or isinstance(each, BudgetSpent) for each in found), found\n"
    "    print(sum(each is None for each in found))\n"
    "asyncio.run(main())\n"
)


def ledger_of(place: Place, run: str, calls: int | None = None, cost_usd: float | None = None) -> DatabaseLedger:
    return ledger_at(place, run, Limits(team=TeamBudget("search", calls, cost_usd)))


async def test_all_runs_of_a_team_share_its_calls_of_the_month(place: Place) -> None:
    one, other = ledger_of(place, "run1", calls=5), ledger_of(place, "run2", calls=5)
    first = await admitted(one, ["a", "b", "c"])
    assert len(first) == 3
    assert len(await admitted(other, ["d", "e", "f"])) == 2
    await one.failed(question("a"), "refused")
    assert len(await admitted(other, ["g", "h"])) == 1, "what failed is given back"
    elsewhere = ledger_at(place, "run3", Limits(team=TeamBudget("ads", calls=1)))
    assert await admitted(elsewhere, ["i"]) == ["i"], "another team has a budget of its own"
    assert {line["team"]: line["calls"] for line in LedgerReader(place).teams()} == {"search": 5, "ads": 1}


async def test_money_is_set_aside_and_settled_for_the_team(place: Place) -> None:
    one, other = ledger_of(place, "run1", cost_usd=2.0), ledger_of(place, "run2", cost_usd=2.0)
    assert await admitted(one, ["a", "b"]) == ["a", "b"]
    assert await admitted(other, ["c"]) == []
    await one.answered(question("a"), REPLY)  # 0.25 of the dollar that was set aside
    assert await admitted(other, ["d"], usd=0.75) == ["d"]
    with pytest.raises(BudgetSpent, match="price is unknown"):
        await other.intend(question("e"), Charge(None))
    (line,) = LedgerReader(place).teams()
    assert line["usd"] == pytest.approx(2.0)


async def test_a_refusal_says_what_is_spent_the_limit_and_when_it_renews(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.tasks.ledger.ledger.time.time", lambda: 1_798_700_000.0)  # 31 December 2026
    ledger = ledger_of(place, "run1", calls=9, cost_usd=2.0)
    await admitted(ledger, ["a"])
    await ledger.answered(question("a"), replace(REPLY, cost_usd=1.5))
    with pytest.raises(BudgetSpent) as refused:
        await ledger.intend(question("b"), Charge(1.0))
    said = str(refused.value)
    assert "team search for 2026-12 is spent: 1 of 9 calls, $1.50 of $2.00" in said
    assert "renews on 2027-01-01" in said
    assert "[budgets.search]" in said
    assert "\n" not in said


async def test_a_new_month_begins_with_nothing_spent_and_late_replies_go_to_their_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_798_700_000.0
    monkeypatch.setattr("leadline.tasks.ledger.ledger.time.time", lambda: now)
    ledger = ledger_of(place, "run1", cost_usd=1.0)
    assert await admitted(ledger, ["a"]) == ["a"]
    assert await admitted(ledger, ["b"]) == []
    now += 10 * 86_400
    assert await admitted(ledger, ["b"]) == ["b"]
    await ledger.answered(question("a"), REPLY)
    spent = {line["month"]: line["usd"] for line in LedgerReader(place).teams()}
    assert spent == {"2026-12": pytest.approx(0.25), "2027-01": pytest.approx(1.0)}


async def test_a_call_counts_against_the_run_and_the_team_or_against_neither(place: Place) -> None:
    small = ledger_at(place, "run1", Limits(calls=1, team=TeamBudget("search", calls=3)))
    assert len(await admitted(small, ["a", "b"])) == 1
    large = ledger_at(place, "run2", Limits(calls=9, team=TeamBudget("search", calls=3)))
    assert len(await admitted(large, ["c", "d", "e"])) == 2
    (line,) = LedgerReader(place).teams()
    assert line["calls"] == 3


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_transaction_locks_runs_before_teams_and_each_by_its_name_whatever_comes_first(
    order: tuple[int, ...],
) -> None:
    """Two that lock in different orders would wait for each other."""
    accounts = [Account("run", ("run1",)), Account("run", ("run2",))]
    accounts += [Account("team", ("ads", "2026-12")), Account("team", ("ads", "2027-01"))]
    ends = [End(n, (n,), None, "run1", (accounts[n],), 0.1, None) for n in order]
    spent = [each for each in perform(ends) if each.sql in {account.statement("spend") for account in accounts}]
    assert spent == [Change(account.statement("spend"), [(-1, -0.1, *account.key)]) for account in accounts]


def test_processes_that_begin_calls_at_once_make_none_too_many(place: Place) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(place), f"run{n}"], env=os.environ | {"PYTHONPATH": "."},
            stdout=subprocess.PIPE, text=True,
        )
        for n in range(3)
    ]  # fmt: skip
    begun = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(begun) == 50
    (line,) = LedgerReader(place).teams()
    assert line["calls"] == 50


def test_workers_read_the_team_where_they_read_the_limits(tmp_path: Path) -> None:
    limits = Limits(calls=3, team=TeamBudget("search", cost_usd=2.5))
    write_jobs(tmp_path / "jobs.json", [], Settings(), limits)
    assert read_limits(tmp_path / "jobs.json") == limits


def test_months_are_those_of_utc_and_renew_on_their_first_day() -> None:
    assert month_of(1_798_761_599.0) == "2026-12"
    assert month_of(1_798_761_600.0) == "2027-01"
    assert [renewal("2026-11"), renewal("2026-12")] == ["2026-12-01", "2027-01-01"]
