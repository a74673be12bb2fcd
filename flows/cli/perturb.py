"""``leadline perturb``: copies of cases whose question is worded otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.text import count
from leadline.flows.cli.evaluate_options import FORMATS, refusals
from leadline.flows.cli.output import clean, print_json, print_table
from leadline.flows.cli.session import Session, say, session_options, warn_of_ledger

if TYPE_CHECKING:
    from leadline.flows.perturb.config import PerturbConfig


@click.command()
@click.argument("suite", type=click.Path(), metavar="SUITE", required=False)
@click.option(
    "--with",
    "recipes",
    multiple=True,
    metavar="NAME[:HOW][+…]",
    help="What to do, such as typo:high or comma+word_swap; repeatable, each gives a copy of every case.",
)
@click.option("--list", "listed", is_flag=True, help="List the perturbations.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random choices.")
@click.option(
    "--copies", type=click.IntRange(1, 100), default=1, show_default=True, help="Copies of each case by each --with."
)
@click.option("--format", type=click.Choice(FORMATS), default="auto", show_default=True, help="The suite's format.")
@click.option("--judge", metavar="MODEL", help="Who writes misinformation.")
@click.option("--judge-api-base", metavar="URL", help="Address of the judge's OpenAI-compatible server.")
@click.option("--judge-config", type=click.Path(), metavar="FILE", help="File with named judges.")
@click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Judge calls that may be made.")
@click.option("--max-cost", type=click.FloatRange(0), metavar="USD", help="What may be spent on the judge.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="The file.  [default: SUITE.perturbed.jsonl]")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def perturb(
    session: Session,
    /,
    suite: str | None,
    recipes: Sequence[str],
    listed: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write SUITE with perturbed copies of its cases, each linked to its original.

    Collect answers to them and evaluate: the report says which answers flip.
    """
    if listed:
        from leadline.tasks.perturb.perturbations import described

        print_table(("perturbation", "what it does"), list(described().items()))
        return
    if suite is None or not recipes:
        raise UsageError(
            "Name a suite and what to do to it.",
            hint="For example: leadline perturb s.json --with typo",
            code=ErrorCode.CONFIG_OPTION,
        )
    from dataclasses import asdict

    from leadline.flows.perturb.config import asks_judge, make_copies, output_of

    config = _config(session, suite, recipes, options)
    if asks_judge(config):
        warn_of_ledger(config.store)
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


def _config(session: Session, suite: str, recipes: Sequence[str], options: dict[str, Any]) -> PerturbConfig:
    from leadline.flows.evaluate.config import Judges
    from leadline.flows.perturb.config import PerturbConfig

    judges = {"judge": "model", "judge_api_base": "api_base", "judge_config": "config"}
    chosen = {field: options.pop(option) for option, field in judges.items()}
    chosen |= {name: options.pop(name) for name in ("max_calls", "max_cost")}
    with refusals("perturb", PerturbConfig):
        return PerturbConfig(
            suite=suite,
            recipes=tuple(recipes),
            judges=Judges(**chosen),
            store=session.store,
            **options,
        )
