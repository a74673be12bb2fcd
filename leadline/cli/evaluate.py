"""``leadline evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.core.user_evaluators import load_evaluator_file
from leadline.evaluators.ground import ErrorCode, UsageError, count, nouns, settings_table
from leadline.evaluators.judge_client.choice import evaluator_files_of
from leadline.flows.command.grouped_help import GroupedCommand, GroupedOption
from leadline.flows.command.options import fill_in, form_epilog, form_options, parse_params, read_settings, split_ids
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.running import print_outcome, run_job
from leadline.flows.command.session import Session, say, server_option, session_options
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.shared.option_group import OptionGroup
from leadline.tasks.ground.timeline import MOST_CALLS, Timeline, noting_imports, timed_by, write_trace
from leadline.tasks.runs.run_sentences import gate_reason
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.flows.evaluate.prepare import PlanPreview

GATE_FAILED: Final = 1
_LISTED: Final = 20
"""Columns without a field that a plan lists."""
_LONGEST: Final = 60
"""Characters of a column's name that a plan shows."""


@click.command(
    cls=GroupedCommand,
    epilog=form_epilog(EvaluateConfig, "evaluate"),
    settings_line="Each setting can also stand in [evaluate] of leadline.toml, or be given with --set.",
)
@form_options(EvaluateConfig)
@click.option(
    "--plan",
    is_flag=True,
    cls=GroupedOption,
    group=OptionGroup.OUTPUT,
    help="Show what would be reused, computed and left out, and what judges would cost. Nothing is scored.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the outcome as JSON.", cls=GroupedOption, group=OptionGroup.OUTPUT
)
@click.option(
    "--profile",
    cls=GroupedOption,
    group=OptionGroup.OUTPUT,
    advanced=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write where the time went, for Perfetto (ui.perfetto.dev) or the profiler of a browser.",
)
@server_option
@session_options
@click.pass_obj
def evaluate(session: Session, /, plan: bool, as_json: bool, profile: Path | None, **options: Any) -> int:
    """Score the answers in DATASET and write a report.

    Scores that the store contains are reused. With --fail-on, a gate that fails or cannot be decided leaves with exit
    code 1.
    """
    config = make_config(session, options)
    if plan:
        if profile or session.server:
            raise UsageError(
                "--plan runs nothing: it takes neither --profile nor --server.",
                hint="Leave out --plan, or the others.",
                code=ErrorCode.CONFIG_OPTION,
            )
        _preview(config, as_json=as_json)
        return 0
    return run_evaluation(session, config, as_json=as_json, profile=profile)


def run_evaluation(session: Session, config: EvaluateConfig, *, as_json: bool, profile: Path | None = None) -> int:
    """Run an evaluation, print its outcome, and return the exit code."""
    timeline = Timeline(session.began)
    with timed_by(timeline), noting_imports(timeline) if profile else nullcontext():
        from leadline.flows.evaluate.job import Evaluate  # it scores, which a plan does not

        job = Evaluate(asks_here=True)
        result = run_job(session, job, config)
    result = _ended(result, config, timeline, profile)
    print_outcome(job, result, as_json=as_json)
    if config.fail_on.value == "never" or result.gate == "pass":
        return 0
    verdict = "failed" if result.gate == "fail" else "could not be decided"
    reason = result.gate_reason if as_json else gate_reason(result)
    say(f"The gate {verdict}{f': {clean(reason)}' if reason else '.'}", always=True)
    return GATE_FAILED


def _ended(result: EvaluateResult, config: EvaluateConfig, timeline: Timeline, profile: Path | None) -> EvaluateResult:
    """Record the time of a run whose history is written, write its profile, and return the result with that time."""
    from leadline.flows.evaluate.job import record_time
    from leadline.tasks.ledger.ledger import read_ledger

    store = Store.open(config.store)
    result = record_time(result, store, timeline)
    if profile is not None:
        calls = read_ledger(store).call_times(result.run, MOST_CALLS)
        try:
            write_trace(profile, timeline.spans, calls, run=result.run, seconds=result.time.total)
        except OSError as error:  # the run and its gate are what was asked for first
            say(f"Warning: the profile {profile} could not be written: {error.strerror or error}.", always=True)
        else:
            say(f"Wrote {profile}; https://ui.perfetto.dev opens it.")
    return result


def _preview(config: EvaluateConfig, *, as_json: bool) -> None:
    """Print what an evaluation would reuse and compute."""
    from leadline.flows.evaluate.prepare import preview

    planned = preview(config)
    if as_json:
        print_json(asdict(planned))
    else:
        _print_plan(planned)


def make_config(session: Session, options: dict[str, Any]) -> EvaluateConfig:
    """Return the settings of an evaluation: those of ``leadline.toml``, replaced by the options that were given.

    Raises:
        UsageError: A value is not what it should be.
    """
    judges = read_settings(options["settings"]).get("judges", {})
    config = judges.get("config") if isinstance(judges, dict) else None
    for file in evaluator_files_of(options["evaluator_files"], config):
        load_evaluator_file(file)  # parameters may be for its evaluators
    options |= {"evaluators": split_ids(options["evaluators"]), "params": parse_params(options["params"]) or None}
    return fill_in(EvaluateConfig, "evaluate", options | {"store": session.store}, settings_table("evaluate"))


def _print_left_out(left_out: Mapping[str, str]) -> None:
    """Print why evaluators do not run although nobody excluded them, those with the same reason together."""
    from leadline.tasks.plan.selection import BY_NAME

    by_reason: dict[str, list[str]] = {}
    for id_, why in left_out.items():
        by_reason.setdefault(why, []).append(id_)
    click.echo(f"\nLeft out, {count(len(left_out), 'evaluator')} (-e ID runs one all the same):")
    for why in sorted(by_reason, key=lambda why: (why == BY_NAME, -len(by_reason[why]))):
        click.echo(f"  {clean(why)}\n    {', '.join(by_reason[why])}")


def _columns(planned: PlanPreview) -> str:
    """Say what each column is taken for."""
    used = [field if column == field else f"{_short(column)} → {field}" for column, field in planned.columns.items()]
    others = [_short(column) for column in planned.metadata_columns]
    more = ", …" if len(others) > _LISTED else ""
    return ", ".join(used) + (f"; metadata: {', '.join(others[:_LISTED])}{more}" if others else "")


def _short(column: str) -> str:
    return column if len(column) <= _LONGEST else f"{column[: _LONGEST - 1]}…"


def _print_plan(planned: PlanPreview) -> None:
    click.echo(
        f"{clean(planned.dataset)} ({planned.format}): {count(planned.rows, 'row')}, {count(planned.cases, 'case')}, "
        f"{nouns(len(planned.models), 'model')} {', '.join(map(clean, planned.models))}; "
        f"sentences by {clean(planned.splitter)}"
    )
    if planned.turns:
        click.echo(f"Conversations: {count(planned.turns, 'turn')}, {count(planned.tool_calls, 'call')} of tools")
    if planned.embedder:
        click.echo(f"Embedder: {clean(planned.embedder)}")
    click.echo(f"Columns: {clean(_columns(planned))}")
    for warning in planned.warnings:
        say(f"Warning: {clean(warning)}.")
    judged = any(entry.judge_calls is not None or entry.cost_usd is not None for entry in planned.entries)
    counts = ["reused", "to compute", "not applicable", "host errors", *(["judge calls", "cost USD"] if judged else [])]
    rows: list[Sequence[object]] = []
    for entry in planned.entries:
        calls = [number(entry.judge_calls), number(entry.cost_usd, 2)] if judged else []
        numbers = (entry.reused, entry.to_compute, entry.not_applicable, entry.host_errors)
        note = entry.missing or ", ".join(entry.models)
        rows.append((entry.evaluator, entry.lane, *(f"{count:,}" for count in numbers), *calls, note))
    print_table(("evaluator", "lane", *counts, "models"), rows, right=counts)
    total, reused = (sum(getattr(entry, name) for entry in planned.entries) for name in ("to_compute", "reused"))
    click.echo(
        f"{count(reused, 'row score is', 'row scores are')} reused, {total:,} {nouns(total, 'is', 'are')} to compute."
    )
    later = sum(entry.later for entry in planned.entries)
    if later:
        click.echo(
            f"Of the judge calls about {later:,} row scores come later: rows that are judged again to measure the "
            "judge's own noise, or to tell whose flips they are, by what the first trial says."
        )
    if planned.left_out:
        _print_left_out(planned.left_out)
    blocked = [entry.evaluator for entry in planned.entries if entry.missing and entry.to_compute]
    if blocked:
        say(f"These cannot run now, and their rows will be unscored: {', '.join(blocked)}.")
