"""``leadline collect``: ask models under test for their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground.text import count
from leadline.flows.collect.config import CollectConfig
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.running import on_an_api, stoppable
from leadline.flows.command.session import Session, check_ledger, say, server_option, session_options

if TYPE_CHECKING:
    from leadline.flows.collect.config import CollectResult

_KEPT: Final = "Interrupted. Answers are kept: the same command asks only for what is missing."


@click.command(cls=GroupedCommand)
@form_options(CollectConfig)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def collect(session: Session, /, as_json: bool, **options: Any) -> int:
    """Ask models for their answers to the cases of SUITE.

    The result is a dataset for `leadline evaluate`. SUITE is any dataset; answers in it are ignored. Answers that were
    given before are not asked for again, unless the model's configuration or --model-version changed. A call that
    failed is an error in its row, and asked again by the same command.
    """
    config = fill_in(CollectConfig, "collect", options | {"store": session.store})
    check_ledger(config.store)
    with stoppable(_KEPT):
        result = on_an_api(
            session, lambda: _run(config), direct=lambda: _run_directly(config), first=lambda: _check(config)
        )
    result = result.model_copy(update={"seconds": session.elapsed()})
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        print_result(result)
    return 0


def _check(config: CollectConfig) -> None:
    """Refuse what the flow would refuse, before a server is waited for."""
    from leadline.flows.collect.prepare import output_of, targets_of
    from leadline.flows.shared.reading import reading
    from leadline.tasks.collect import check_target
    from leadline.tasks.load import load_dataset
    from leadline.tasks.store.store import Store

    targets = targets_of(config)
    output_of(config)
    for target in targets:
        check_target(target)
    how = reading(config.map, format=config.format)
    suite = load_dataset(Store.open(config.store), config.suite, cases_only=True, **how)
    for warning in suite.column_warnings:
        say(f"Warning: {clean(warning)}.")


def _run(config: CollectConfig) -> CollectResult:
    from leadline.flows.collect.flow import collect as flow
    from leadline.flows.prefect.prefect_steps import recorded

    return recorded(flow, config, _run_directly)


def _run_directly(config: CollectConfig) -> CollectResult:
    from leadline.flows.collect.collection import run_collection
    from leadline.flows.shared.plain_steps import PlainSteps

    return run_collection(config, PlainSteps())


def print_result(result: CollectResult) -> None:
    """Print what was collected."""
    price = "price unknown" if result.unknown_price == result.calls else f"${result.cost_usd:.4f}"
    if 0 < result.unknown_price < result.calls:
        price += f" and {count(result.unknown_price, 'call')} of unknown price"
    made = f"{result.calls:,} made{f', {price}' if result.calls else ''}"
    lines = (
        ("Answers", f"{result.answered:,} of {count(len(result.models), 'model')} to {count(result.cases, 'case')}"),
        ("Calls", f"{made}; {count(result.reused, 'answer')} reused; {result.seconds:.1f} s"),
        *((("Errors", f"{result.failed:,}"),) if result.failed else ()),
        *((("Cut off", f"{count(result.truncated, 'answer')}, at the token limit"),) if result.truncated else ()),
        *((("Unasked", f"{count(result.unasked, 'row')} of cases without a question"),) if result.unasked else ()),
        ("Dataset", str(result.dataset)),
    )
    for label, text in lines:
        click.echo(f"{label:<9} {clean(text)}")
    for error, number in result.errors.items():
        say(f"{count(number, 'row')}: {clean(error)}")
    if result.failed:
        say("The same command asks again for what failed.")
