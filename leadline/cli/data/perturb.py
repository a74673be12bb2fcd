"""``leadline data perturb``: copies of cases whose question is worded otherwise."""

from __future__ import annotations

from typing import Any

import click

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.text import count
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import Session, check_ledger, say, session_options
from leadline.flows.perturb.config import PerturbConfig


@click.command()
@click.argument("suite", type=click.Path(), metavar="SUITE", required=False)
@form_options(PerturbConfig, without=("suite", "store"))
@click.option("--list", "listed", is_flag=True, help="List the perturbations.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def perturb(
    session: Session,
    /,
    suite: str | None,
    listed: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a suite with perturbed copies of its cases.

    Each copy is linked to its original in SUITE. Collect answers to them and evaluate: the report says which answers
    flip.
    """
    if listed:
        from leadline.tasks.perturb.perturbations import described

        print_table(("perturbation", "what it does"), list(described().items()))
        return
    if suite is None or not options["recipes"]:
        raise UsageError(
            "Name a suite and what to do to it.",
            hint="For example: leadline data perturb s.json --with typo",
            code=ErrorCode.CONFIG_OPTION,
        )
    from dataclasses import asdict

    from leadline.flows.perturb.prepare import asks_judge, make_copies, output_of

    config = fill_in(PerturbConfig, "data perturb", options | {"suite": suite, "store": session.store})
    if asks_judge(config):
        check_ledger(config.store)
    done = make_copies(config)
    path = output_of(config).absolute()
    if as_json:
        print_json(asdict(done) | {"suite": path})
        return
    for name, number in done.copies.items():
        say(f"{name}: {count(number, 'copy', 'copies')}")
    for name, number in done.unchanged.items():
        say(f"{name}: nothing to change in {count(number, 'question')}")
    for message, number in done.failed.items():
        say(f"{count(number, 'copy was', 'copies were')} not written: {clean(message)}")
    click.echo(str(path))
