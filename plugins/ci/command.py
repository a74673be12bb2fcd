"""``leadline ci``: checks a change as ``leadline.toml`` says, for a CI job."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from leadline.evaluators.ground import count
from leadline.flows.command.options import form_options
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.running import run_job
from leadline.flows.command.session import Session, say, server_option, session_options
from leadline.plugins.ci.config import CiConfig, read_request
from leadline.tasks.ground.timeline import Timeline, timed_by
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
    from leadline.plugins.ci.config import CheckRequest


@click.command()
@click.argument("names", nargs=-1, metavar="[CHECK]...")
@form_options(CiConfig)
@click.option("--dry-run", is_flag=True, help="Check the settings and datasets, say what would be computed, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON instead of Markdown.")
@server_option
@session_options
@click.pass_obj
def ci(session: Session, /, names: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any) -> int:
    """Check a change in CI, and tell its pull request.

    The answers are evaluated as [ci] of leadline.toml says, and compared with the base branch's run. Prints a summary
    as Markdown, writes it with JUnit, SARIF and the reports to a folder, and keeps one comment on the pull request up
    to date where there is one and a token for it.

    Leaves with 0 if all checks pass, with 1 if one fails, and with 2 or 3 if one could not be made.
    """
    given = {name: value for name, value in options.items() if value is not None}
    request = read_request(given, names)
    if dry_run:
        return _preview(session, request, as_json=as_json)
    return _check(session, request, as_json=as_json)


def _check(session: Session, request: CheckRequest, *, as_json: bool) -> int:
    from leadline.plugins.ci.checking import check_change

    checked = check_change(
        request,
        store=session.store,
        environment=os.environ,
        evaluate=lambda config: _evaluate(session, config),
        tell=lambda error: say(f"Error [{error.code}]: {error}", always=True),
    )
    if as_json:
        print_json(checked.record)
    else:
        click.echo(checked.summary, nl=False)
    if checked.posting.done == "refused":
        say(f"Warning: {clean(checked.posting.words)}", always=True)
    elif checked.posting.done != "not asked":
        say(f"The comment on the pull request: {checked.posting.done}.")
    return checked.exit_code


def _evaluate(session: Session, config: EvaluateConfig) -> EvaluateResult:
    from leadline.flows.evaluate.job import Evaluate, record_time

    with timed_by(Timeline()) as timeline:
        result = run_job(session, Evaluate(asks_here=True), config)
    return record_time(result, Store.open(config.store), timeline)


def _preview(session: Session, request: CheckRequest, *, as_json: bool) -> int:
    """Check what can be checked without scoring, and print what would be computed."""
    from leadline.flows.evaluate.prepare import preview

    planned = {
        name: preview(config.evaluation(against=None, store=session.store)) for name, config in request.checks.items()
    }
    if as_json:
        print_json({name: asdict(each) for name, each in planned.items()})
        return 0
    rows = []
    for name, each in planned.items():
        for warning in each.warnings:
            say(f"Warning: {clean(warning)}.")
        sums = {field: sum(getattr(entry, field) for entry in each.entries) for field in ("reused", "to_compute")}
        calls = [entry.judge_calls for entry in each.entries if entry.judge_calls is not None]
        costs = [entry.cost_usd for entry in each.entries if entry.cost_usd is not None]
        counts = (f"{each.rows:,}", *(f"{n:,}" for n in sums.values()))
        rows.append(
            (name or "-", each.dataset, *counts, number(sum(calls)), number(sum(costs), 2) if costs else number(None))
        )
    right = ("rows", "reused", "to compute", "judge calls", "cost USD")
    print_table(("check", "dataset", *right), rows, right=right)
    click.echo(f"{count(len(rows), 'check is', 'checks are')} in order; nothing was scored.")
    return 0
