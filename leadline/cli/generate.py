"""``leadline generate``: make questions and answers from documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground.text import count
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.running import on_an_api, stoppable
from leadline.flows.command.session import Session, check_ledger, say, server_option, session_options
from leadline.flows.generate.config import GenerateConfig

if TYPE_CHECKING:
    from leadline.flows.generate.config import GenerateResult
    from leadline.tasks.generate import Corpus

_KEPT: Final = "Interrupted. Replies are kept: the same command asks only for what is missing."
_NAMED: Final = 5


@click.command(cls=GroupedCommand)
@form_options(GenerateConfig)
@click.option(
    "--dry-run", is_flag=True, help="Read and cut the documents, say how many calls it takes, and ask nobody."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def generate(session: Session, /, as_json: bool, dry_run: bool, **options: Any) -> int:
    """Make questions and answers from DOCS.

    The result is a dataset for `leadline collect` and `leadline evaluate`. DOCS are files and folders: PDF, Markdown,
    HTML and plain text. A judge writes questions about each chunk of them, and answers each from this chunk only.
    Replies that were given before are not asked for again. A chunk of which a call failed is left out, and asked about
    again by the same command.
    """
    config = fill_in(GenerateConfig, "generate", options | {"store": session.store})
    check_ledger(config.store)
    if dry_run:
        _preview(config, as_json=as_json)
        return 0
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


def _check(config: GenerateConfig) -> None:
    """Refuse what the flow would refuse, before a server is waited for."""
    from leadline.evaluators.core.context import EvalContext
    from leadline.flows.generate.prepare import corpus_of, embed_of, output_of, settings_of

    output_of(config)
    embed_of(config, EvalContext(settings_of(config)))
    corpus_of(config)


def _run(config: GenerateConfig) -> GenerateResult:
    from leadline.flows.generate.flow import generate as flow
    from leadline.flows.prefect.prefect_steps import recorded_flow

    return recorded_flow(flow, config, _run_directly)


def _run_directly(config: GenerateConfig) -> GenerateResult:
    from leadline.flows.generate.generation import run_generation
    from leadline.flows.job import PlainSteps

    return run_generation(config, PlainSteps())


def _preview(config: GenerateConfig, *, as_json: bool) -> None:
    """Print what would be asked."""
    from leadline.flows.generate.prepare import corpus_of, output_of

    output_of(config)
    corpus = corpus_of(config)
    calls = len(corpus.chunks) * (1 + config.questions)
    if as_json:
        numbers = {"documents": corpus.documents, "chunks": len(corpus.chunks), "of_chunks": corpus.found}
        print_json({**numbers, "most_calls": calls, "warnings": corpus.warnings})
        return
    _print_lines(("Documents", _chunks(corpus)), ("Calls", f"at most {calls:,}, if no reply is known yet"))
    _warn(corpus.warnings)


def _chunks(corpus: Corpus) -> str:
    drawn = f"{len(corpus.chunks):,} of " if len(corpus.chunks) < corpus.found else ""
    return f"{corpus.documents:,}; {drawn}{count(corpus.found, 'chunk')}"


def print_result(result: GenerateResult) -> None:
    """Print what was generated."""
    price = "price unknown" if result.unknown_price == result.calls else f"${result.cost_usd:.4f}"
    if 0 < result.unknown_price < result.calls:
        price += f" and {count(result.unknown_price, 'call')} of unknown price"
    made = f"{result.calls:,} made{f', {price}' if result.calls else ''}"
    reasons = {"repeated": result.repeated, "not answered by their chunk": result.unanswerable, "empty": result.blank}
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items() if number)
    _print_lines(
        ("Documents", f"{result.documents:,}; {count(result.chunks, 'chunk')}"),
        ("Cases", f"{result.cases:,}{f'; dropped: {dropped}' if dropped else ''}"),
        ("Calls", f"{made}; {count(result.reused, 'reply', 'replies')} reused; {result.seconds:.1f} s"),
        *((("Left out", count(result.failed, "chunk")),) if result.failed else ()),
        ("Dataset", str(result.dataset)),
    )
    _warn(result.warnings)
    for line in result.left_out[:_NAMED]:
        say(f"Left out: {clean(line)}")
    if result.failed > _NAMED:
        say(f"and {count(result.failed - _NAMED, 'more chunk')}.")
    if result.failed:
        say("The same command asks again for what failed.")


def _print_lines(*lines: tuple[str, str]) -> None:
    for label, text in lines:
        click.echo(f"{label:<9} {clean(text)}")


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings[:_NAMED]:
        say(f"Warning: {clean(warning)}")
    if len(warnings) > _NAMED:
        say(f"and {count(len(warnings) - _NAMED, 'more warning')}.")
