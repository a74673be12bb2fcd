"""``leadline data perturb``: reworded cases."""

from __future__ import annotations

from typing import Any

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import print_table
from leadline.flows.command.running import print_outcome, run_here
from leadline.flows.command.session import Session, session_options
from leadline.flows.perturb import Perturb, PerturbConfig
from leadline.tasks.perturb.perturbations import described


@click.command()
@click.argument("suite", type=click.Path(), metavar="SUITE", required=False)
@form_options(PerturbConfig, without=("suite", "store"))
@click.option("--list", "listed", is_flag=True, help="List the perturbations.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def perturb(session: Session, /, suite: str | None, listed: bool, as_json: bool, **options: Any) -> None:
    """Write a suite with perturbed copies of its cases.

    Each copy is linked to its original in SUITE. Collect answers to them and evaluate: the report says which answers
    flip.
    """
    if listed:
        print_table(("perturbation", "what it does"), list(described().items()))
        return
    if suite is None or not options["recipes"]:
        raise UsageError(
            "Name a suite and what to do to it.",
            hint="For example: leadline data perturb s.json --with typo",
            code=ErrorCode.CONFIG_OPTION,
        )
    config = fill_in(PerturbConfig, "data perturb", options | {"suite": suite, "store": session.store})
    result = run_here(Perturb(), config)
    print_outcome(Perturb(), result, as_json=as_json)
    if not as_json:
        click.echo(str(result.suite))
