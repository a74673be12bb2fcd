"""``leadline evaluate`` and ``leadline plan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.core.text import count, nouns
from leadline.flows.cli.options import file_settings, fill_in, form_options, parse_params, split_ids
from leadline.flows.cli.output import clean, number, print_json, print_table
from leadline.flows.cli.running import on_an_api, stoppable
from leadline.flows.cli.session import Session, say, session_options, warn_of_ledger
from leadline.flows.evaluate.config import EvaluateConfig

if TYPE_CHECKING:
    from leadline.flows.evaluate.config import EvaluateResult
    from leadline.flows.evaluate.prepare import PlanPreview

GATE_FAILED: Final = 1


@click.command()
@form_options(EvaluateConfig)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def evaluate(session: Session, /, as_json: bool, **options: Any) -> int:
    """Score the answers in DATASET and write a report.

    Scores that the store contains are reused. With --fail-on, a gate that fails or cannot be decided leaves with exit
    code 1.
    """
    return run_evaluation(session, make_config(session, options), as_json=as_json)


def run_evaluation(session: Session, config: EvaluateConfig, *, as_json: bool) -> int:
    """Run an evaluation, print its outcome, and return the exit code.

    Args:
        session: The global options.
        config: The request.
        as_json: Print JSON instead of lines.
    """
    with stoppable("Interrupted. Finished chunks are kept: the same command goes on from there."):
        result = on_an_api(session, lambda: _run(config), first=lambda: _check(config), meanwhile=_import)
    _print_json(result) if as_json else _print_result(result)
    if config.fail_on.value == "never" or result.gate == "pass":
        return 0
    verdict = "failed" if result.gate == "fail" else "could not be decided"
    say(f"The gate {verdict}: {clean(result.gate_reason)}", always=True)
    return GATE_FAILED


@click.command()
@form_options(EvaluateConfig)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def plan(session: Session, /, as_json: bool, **options: Any) -> None:
    """Show what an evaluation of DATASET would reuse and compute. Nothing is scored."""
    config = make_config(session, options)
    from leadline.flows.evaluate.prepare import preview

    planned = preview(config)
    if as_json:
        print_json(asdict(planned))
    else:
        _print_plan(planned)


def make_config(session: Session, options: dict[str, Any]) -> EvaluateConfig:
    """Return the settings of an evaluation: those of ``leadline.toml``, replaced by the options that were given.

    Args:
        session: The global options.
        options: The command's options.

    Raises:
        UsageError: A value is not what it should be.
    """
    from leadline.evaluators.core.evaluator_files import load_evaluator_file
    from leadline.flows.shared.judges import evaluator_files_of

    for file in evaluator_files_of(options["evaluator_files"], options["judges__config"]):
        load_evaluator_file(file)  # parameters may be for its evaluators
    options |= {"evaluators": split_ids(options["evaluators"]), "params": parse_params(options["params"]) or None}
    return fill_in(EvaluateConfig, "evaluate", options | {"store": session.store}, file_settings("evaluate"))


def _run(config: EvaluateConfig) -> EvaluateResult:
    from leadline.flows.evaluate.flow import evaluate as flow

    result: EvaluateResult = flow(config)
    return result


def _check(config: EvaluateConfig) -> None:
    """Refuse what the flow would refuse, before a server starts."""
    from leadline.flows.evaluate.prepare import prepare

    prepared = prepare(config, check_key=True)
    if prepared.settings.judges:
        warn_of_ledger(config.store)
    say_left_out(prepared.applicable().left_out)


def _import() -> None:
    import leadline.flows.evaluate.flow  # noqa: F401 - takes a second, while the server starts


def say_left_out(left_out: Mapping[str, str]) -> None:
    """Say which evaluators do not run although nobody excluded them."""
    from leadline.tasks.plan.selection import NOT_HERE

    absent = [name for name, why in left_out.items() if why.endswith(NOT_HERE)]
    if absent:
        say(
            f"Left out, since their weights are {NOT_HERE}: {', '.join(absent)}. "
            "(leadline models lists them; --suite no-judge runs them all the same.)"
        )
    for name, why in left_out.items():
        if name not in absent:
            say(f"Left out: {name}. {clean(why)}.")


def _print_result(result: EvaluateResult) -> None:
    report = result.report.absolute()
    lines = (
        ("Gate", f"{result.gate_in_words}: {clean(result.gate_reason)}"),
        (
            "Scores",
            f"{result.scored:,} scored, {result.unscored:,} unscored, {result.not_applicable:,} not applicable",
        ),
        ("Rows", f"{count(result.reused, 'row score')} reused, {result.computed:,} computed in {result.seconds:.1f} s"),
        *((("Judge", _judged(result)),) if result.judge_calls or result.judge_made_again else ()),
        ("Problems", result.problems_in_words),
        ("Run", result.run),
        ("Report", str(report)),
        ("", result.report_url or report.as_uri()),
    )
    for label, text in lines:
        click.echo(f"{label:<9} {text}")


def _judged(result: EvaluateResult) -> str:
    """Say what the judge cost; an unknown cost is reported as unknown, not as zero."""
    calls, unknown = result.judge_calls, result.judge_unknown_price
    price = "price unknown" if unknown == calls else f"${result.judge_cost_usd:.4f}"
    if 0 < unknown < calls:
        price += f" and {count(unknown, 'call')} of unknown price"
    again = f"; {result.judge_made_again:,} made again, lost with an earlier run" if result.judge_made_again else ""
    return f"{count(calls, 'call')}, {price}{again}"


def _print_json(result: EvaluateResult) -> None:
    print_json(result.model_dump(mode="json") | {"report_uri": result.report_url or result.report.absolute().as_uri()})


def _print_plan(planned: PlanPreview) -> None:
    click.echo(
        f"{clean(planned.dataset)} ({planned.format}): {count(planned.rows, 'row')}, {count(planned.cases, 'case')}, "
        f"{nouns(len(planned.models), 'model')} {', '.join(map(clean, planned.models))}; "
        f"sentences by {clean(planned.splitter)}"
    )
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
    say_left_out(planned.left_out)
    blocked = [entry.evaluator for entry in planned.entries if entry.missing and entry.to_compute]
    if blocked:
        say(f"These cannot run now, and their rows will be unscored: {', '.join(blocked)}.")
