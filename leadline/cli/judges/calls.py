"""``leadline judges calls``, ``reparse`` and ``budget``: the ledger of calls, and what teams have spent."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.session import Session, check_ledger, say, server_option, session_options

if TYPE_CHECKING:
    from leadline.tasks.ledger.ledger_report import Totals


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
    lines = _team_lines(session, month or month_of(time.time()), config)
    found = [line for line in lines if team is None or line["team"] == team]
    if as_json:
        print_json(found)
    elif not found:
        say("No team has a budget in leadline.toml, and none was charged in the ledger.")
    else:
        _print_teams(found)


def _team_lines(session: Session, month: str, config: str | None) -> list[dict[str, Any]]:
    """Return a line for each team that has a budget or was charged."""
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


def _print_teams(found: list[dict[str, Any]]) -> None:
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


DIGITS: Final = 12
"""Digits of a digest that a table shows; ``leadline judges calls`` takes any beginning."""


@click.command()
@click.argument("digest", required=False, metavar="[DIGEST]")
@click.option("--run", "run_id", metavar="RUN", help="Only this run's calls.")
@click.option("--failed", is_flag=True, help="Only calls that failed, were lost, or whose reply could not be read.")
@click.option("--totals", is_flag=True, help="What calls came to, by run and by what they were for.")
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="The N youngest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, of all calls.")
@session_options
@click.pass_obj
def calls(
    session: Session, /, digest: str | None, run_id: str | None, failed: bool, totals: bool, last: int, as_json: bool
) -> None:
    """List calls to judges and models, or show one with its reply.

    The list begins with the youngest. DIGEST, or its first digits, shows the call with what was sent and what came
    back.
    """
    from leadline.tasks.ledger.ledger import read_ledger

    check_ledger(session.store)
    ledger = read_ledger(session.open_store())
    if digest:
        call = ledger.one(digest)
        print_json(call) if as_json else _print_call(call)
    elif totals:
        found = ledger.totals(run_id)
        print_json([asdict(line) for line in found]) if as_json else _print_totals(found)
    else:
        asks = ledger.asks(run_id, failed=failed, limit=None if as_json else last)
        print_json(asks) if as_json else _print_asks(asks)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_context
def reparse(context: click.Context, /, run_id: str, as_json: bool) -> int:
    """Score a run's dataset anew from the judge's stored replies.

    Today's parsers read the replies of RUN. No call is made.
    """
    from leadline.cli.evaluate import run_evaluation
    from leadline.flows.evaluate.config import EvaluateConfig

    session = context.ensure_object(Session)
    record = session.open_store().run(run_id).read()
    if "config" not in record or "dataset" not in record["config"]:
        raise UsageError(f"Run {run_id!r} has no record of its configuration.", code=ErrorCode.STORE_NO_DATASET)
    config = EvaluateConfig.model_validate(record["config"])
    judges = config.judges.model_copy(update=_same_judge(record) | {"max_calls": 0, "max_cost": None})
    name = f"{config.name or record['name']} (reparsed)"[:200]
    changes = {"judges": judges, "store": session.store or config.store, "name": name}
    return run_evaluation(session, config.model_copy(update=changes), as_json=as_json)


def _same_judge(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return who judged a run, also where the environment named the judge, which may have changed since."""
    judges = record.get("settings", {}).get("judges") or [None]
    first = judges[0]
    if first is None:
        return {}
    if first["key"] != "default":
        return {"model": first["key"]}
    return {"model": first["model"], "api_base": first["api_base"]}


def _print_asks(asks: Sequence[Mapping[str, Any]]) -> None:
    if not asks:
        say("The ledger has no such calls.")
        return
    right = ("tries", "seconds", "tokens", "cost USD")
    lines = [
        (
            ask["digest"][:DIGITS], _time(ask["intended_at"]), ask["purpose"], ask["model"],
            "lost" if ask["lost"] else "unreadable" if ask["problem"] else ask["state"], number(ask["tries"]),
            number(ask["seconds"], 1), _tokens(ask), number(ask["cost_usd"], 5), ask["error"] or ask["problem"] or "",
        )
        for ask in asks
    ]  # fmt: skip
    print_table(("call", "when", "for", "asked", "state", *right, "why"), lines, right=right)


def _tokens(ask: Mapping[str, Any]) -> str:
    known = [count for count in (ask["input_tokens"], ask["output_tokens"]) if count is not None]
    return f"{sum(known):,}" if known else "-"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _print_totals(found: Sequence[Totals]) -> None:
    right = ("calls", "answered", "failed", "lost", "retries", "tokens in", "tokens out", "cost USD", "unknown price")
    lines = [
        (
            line.run, line.evaluator, number(line.asked), number(line.answered), number(line.failed),
            number(line.lost), number(line.repeated_attempts), number(line.input_tokens), number(line.output_tokens),
            number(None if line.answered == line.unknown_price else line.cost_usd, 4), number(line.unknown_price),
        )
        for line in found
    ]  # fmt: skip
    print_table(("run", "for", *right), lines, right=right)


def _print_call(call: Mapping[str, Any]) -> None:
    click.echo(f"Call {call['digest']} to {clean(call['model'])}, trial {call['trial']}, attempt {call['attempt']}")
    for message in call["messages"]:
        _print_block(message["role"], message["content"])
    reply = call["text"]
    _print_block("reply" if reply is not None else "no reply", reply or "")
    if call["error"]:
        click.echo(f"It failed: {clean(call['error'])}")
    if call["finish_reason"] not in (None, "stop"):
        click.echo(f"It ended with: {clean(call['finish_reason'])}")
    for verdict in call["verdicts"]:
        read = verdict["problem"] or json.dumps(verdict["verdict"], ensure_ascii=False)
        click.echo(f"Read by parser {clean(verdict['parser'])}: {clean(read)}")


def _print_block(title: str, text: str) -> None:
    click.echo(f"--- {clean(title)}")
    for line in text.splitlines():
        click.echo(clean(line))
