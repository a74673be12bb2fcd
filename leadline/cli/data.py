"""Make datasets: of documents, of reworded cases, and of RGB."""

from __future__ import annotations

from typing import Any

import click

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.running import print_outcome, run_here, run_job
from leadline.flows.command.session import Session, say, server_option, session_options
from leadline.flows.generate import Generate, GenerateConfig, corpus_of, first_warnings, output_of
from leadline.flows.perturb import Perturb, PerturbConfig
from leadline.tasks.perturb.perturbations import described


@click.command(cls=GroupedCommand)
@form_options(GenerateConfig)
@click.option(
    "--dry-run", is_flag=True, help="Read and cut the documents, say how many calls it takes, and ask nobody."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def generate(session: Session, /, as_json: bool, dry_run: bool, **options: Any) -> None:
    """Make questions and answers from DOCS.

    The result is a dataset for `leadline collect` and `leadline evaluate`. DOCS are files and folders: PDF, Markdown,
    HTML and plain text. A judge writes questions about each chunk of them, and answers each from this chunk only.
    Replies that were given before are not asked for again. A chunk of which a call failed is left out, and asked about
    again by the same command.
    """
    config = fill_in(GenerateConfig, "data generate", options | {"store": session.store})
    if dry_run:
        _preview(config, as_json=as_json)
    else:
        print_outcome(Generate(), run_job(session, Generate(), config), as_json=as_json)


def _preview(config: GenerateConfig, *, as_json: bool) -> None:
    """Print what would be asked."""
    output_of(config)
    corpus = corpus_of(config)
    calls = len(corpus.chunks) * (1 + config.questions)
    if as_json:
        numbers = {"documents": corpus.documents, "chunks": len(corpus.chunks), "of_chunks": corpus.found}
        print_json({**numbers, "most_calls": calls, "warnings": corpus.warnings})
        return
    drawn = f"{len(corpus.chunks):,} of " if len(corpus.chunks) < corpus.found else ""
    click.echo(f"Documents {corpus.documents:,}; {drawn}{count(corpus.found, 'chunk')}")
    click.echo(f"Calls     at most {calls:,}, if no reply is known yet")
    for warning in first_warnings(corpus.warnings):
        say(clean(warning))


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
