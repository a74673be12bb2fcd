"""``leadline judges budget``: what teams have spent of their monthly budgets."""

from __future__ import annotations

import time
from typing import Any

import click

from leadline.flows.command.output import number, print_json, print_table
from leadline.flows.command.session import Session, check_ledger, say, session_options


@click.command()
@click.option("--team", metavar="TEAM", help="Only this team.")
@click.option("--month", metavar="YYYY-MM", help="Another month than the present one (UTC).")
@click.option("--config", metavar="FILE", type=click.Path(dir_okay=False), help="File with the budgets.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def budget(session: Session, /, team: str | None, month: str | None, config: str | None, as_json: bool) -> None:
    """Show what teams have spent of their monthly budgets.

    The budgets are those of leadline.toml, or of the file that --config names; what was spent is in the ledger,
    together with what is set aside for calls in flight.
    """
    from leadline.evaluators.judge_client.budget import month_of

    check_ledger(session.store)
    lines = _lines(session, month or month_of(time.time()), config)
    found = [line for line in lines if team is None or line["team"] == team]
    if as_json:
        print_json(found)
    elif not found:
        say("No team has a budget in leadline.toml, and none was charged in the ledger.")
    else:
        _print(found)


def _lines(session: Session, month: str, config: str | None) -> list[dict[str, Any]]:
    """Return a line for each team that has a budget or was charged."""
    from pathlib import Path

    from leadline.evaluators.ground import ErrorCode, UsageError
    from leadline.evaluators.judge_client.budget import renewal, team_budgets
    from leadline.tasks.ledger.ledger import read_ledger

    try:
        time.strptime(month, "%Y-%m")
    except ValueError:
        raise UsageError(
            f"--month {month[:20]!r} is no month.", hint="Write: --month 2026-11", code=ErrorCode.CONFIG_OPTION
        ) from None
    budgets = team_budgets(Path(config) if config else None)
    spent = {line["team"]: line for line in read_ledger(session.open_store()).teams(month)}
    lines = []
    for name in sorted({*budgets, *spent}):
        limits, line = budgets.get(name), spent.get(name, {"calls": 0, "usd": 0.0})
        lines.append(
            {
                "team": name,
                "month": month,
                "calls": line["calls"],
                "month_calls": limits.calls if limits else None,
                "usd": round(line["usd"], 6),
                "month_cost": limits.cost_usd if limits else None,
                "renews": renewal(month),
            }
        )
    return lines


def _print(found: list[dict[str, Any]]) -> None:
    right = ("calls", "of calls", "spent USD", "of USD", "left USD")
    rows = [
        (
            line["team"], line["month"], number(line["calls"]), number(line["month_calls"]), number(line["usd"], 2),
            number(line["month_cost"], 2),
            number(None if line["month_cost"] is None else max(0.0, line["month_cost"] - line["usd"]), 2),
            line["renews"],
        )
        for line in found
    ]  # fmt: skip
    print_table(("team", "month", *right, "renews"), rows, right=right)
