"""Monthly budgets of teams on the command line: shown, kept by runs, and refused where they are not written down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.evaluators.judge_client.budget import Limits, TeamBudget
from leadline.evaluators.judge_client.calls import Charge
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.scripted_judge import question


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_TEAM", raising=False)
    monkeypatch.setenv("LEADLINE_STORE", "store")
    Path("leadline.toml").write_text("[budgets.search]\nmonth_cost = 200\nmonth_calls = 50\n[budgets.ads]\n")


def spend() -> None:
    async def main() -> None:
        ledger = open_ledger(Store.open(None), "run1", Limits(team=TeamBudget("search", 50, 200.0)))
        await ledger.intend(question("a"), Charge(1.5))

    asyncio.run(main())


def test_budgets_are_listed_with_what_is_spent_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    spend()
    assert run(["judges", "budget"]) == 0
    ads, search = capsys.readouterr().out.splitlines()[2:]
    assert ads.split()[0] == "ads"
    assert search.split()[0] == "search"
    assert search.split()[2:7] == ["1", "50", "1.50", "200.00", "198.50"]


def test_budgets_as_json_can_be_limited_to_a_team(capsys: pytest.CaptureFixture[str]) -> None:
    spend()
    assert run(["judges", "budget", "--team", "search", "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["calls"], line["usd"], line["month_cost"]) == (1, 1.5, 200)


def test_a_month_that_is_none_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judges", "budget", "--month", "november"]) == 2
    assert "--month 2026-11" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_team_without_a_budget_is_refused_before_anything_is_read(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if how == "variable":
        monkeypatch.setenv("LEADLINE_TEAM", "serach")
    option = ["--team", "serach"] if how == "option" else []
    assert run(["evaluate", "nothing.csv", "-e", "bleu", "--server", "none", *option]) == 2
    error = capsys.readouterr().err
    assert "no budget for the team 'serach'; there are ads, search" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["budgets = 3", "[budgets.a]\nmonth_cost = -1", "[budgets.a]\ncost = 1", '[budgets."a b"]', "budgets.a = 1"]
)
def test_a_budget_that_is_written_wrongly_is_refused_in_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("leadline.toml").write_text(text)
    assert run(["judges", "budget"]) == 2
    error = capsys.readouterr().err
    assert "LL-CONFIG-04" in error
    assert len(error.splitlines()) == 1
