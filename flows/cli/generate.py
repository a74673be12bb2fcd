"""``leadline generate``: make questions and answers from documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.core.text import count
from leadline.flows.cli.evaluate_options import refusals
from leadline.flows.cli.output import clean, print_json
from leadline.flows.cli.running import on_an_api, stoppable
from leadline.flows.cli.session import Session, say, session_options, warn_of_ledger

if TYPE_CHECKING:
    from leadline.flows.generate.config import GenerateConfig, GenerateResult
    from leadline.tasks.generate import Corpus

_KEPT: Final = "Interrupted. Replies are kept: the same command asks only for what is missing."
_NAMED: Final = 5
_JUDGES: Final = {
    "judge": "model",
    "judge_api_base": "api_base",
    "judge_config": "config",
    "max_calls": "max_calls",
    "max_cost": "max_cost",
}
_MODELS: Final = ("embedder", "language", "device", "allow_download")


@click.command()
@click.argument("documents", nargs=-1, required=True, type=click.Path(), metavar="DOCS…")
@click.option(
    "--questions", type=click.IntRange(1, 50), default=3, show_default=True, help="Questions to ask for about a chunk."
)
@click.option("--chunk-size", type=click.IntRange(100, 200_000), default=4000, show_default=True, help="Longest chunk.")
@click.option(
    "--overlap",
    type=click.IntRange(0),
    metavar="N",
    help="How much of a chunk the next one repeats.  [default: a tenth of the chunk size]",
)
@click.option(
    "--unit",
    type=click.Choice(("characters", "tokens")),
    default="characters",
    show_default=True,
    help="What both count.",
)
@click.option("--max-chunks", type=click.IntRange(1), metavar="N", help="Ask about N chunks, drawn by --seed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which chunks are drawn.")
@click.option("--judge", metavar="MODEL", help="Who asks: a LiteLLM model name, or a judge of leadline.toml.")
@click.option("--judge-api-base", metavar="URL", help="Address of its OpenAI-compatible server.")
@click.option(
    "--judge-config", type=click.Path(), metavar="FILE", help="File with named judges.  [default: leadline.toml]"
)
@click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Calls that may be made.")
@click.option("--max-cost", type=click.FloatRange(0), metavar="USD", help="What may be spent.")
@click.option("--embedder", metavar="ID|PATH|offline", help="Drop questions that mean the same by this embedder, too.")
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.95,
    show_default=True,
    help="Cosine from which on they do.",
)
@click.option("--language", metavar="CODE", default="en", show_default=True, help="Language, for splitting sentences.")
@click.option("--device", default="auto", show_default=True, help="Of local models: auto, cpu, cuda, cuda:N or mps.")
@click.option("--allow-download", is_flag=True, help="Fetch missing weights.")
@click.option(
    "--encoding", metavar="NAME", help="Encoding of text and HTML.  [default: what HTML says of itself, else UTF-8]"
)
@click.option("--uri-prefix", default="", metavar="TEXT", help="Put before the documents' names in the dataset.")
@click.option("--answers/--no-answers", default=True, help="Write the answers as those of a model 'reference', too.")
@click.option("--with-context", "context", is_flag=True, help="Keep the chunk in the metadata of its cases.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="The dataset.  [default: DOC.questions.jsonl]")
@click.option(
    "--dry-run", is_flag=True, help="Read and cut the documents, say how many calls it takes, and ask nobody."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def generate(session: Session, /, as_json: bool, dry_run: bool, **options: Any) -> int:
    """Make questions and answers from DOCS, and write a dataset for `leadline collect` and `leadline evaluate`.

    DOCS are files and folders: PDF, Markdown, HTML and plain text. A judge writes questions about each chunk of them,
    and answers each from this chunk only. Replies that were given before are not asked for again. A chunk of which a
    call failed is left out, and asked about again by the same command.
    """
    config = _config(session, options)
    warn_of_ledger(config.store)
    if dry_run:
        _preview(config, as_json=as_json)
        return 0
    with stoppable(_KEPT):
        result = on_an_api(session, lambda: _run(config), first=lambda: _check(config))
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        print_result(result)
    return 0


def _config(session: Session, options: dict[str, Any]) -> GenerateConfig:
    from leadline.flows.evaluate.config import Judges, Models
    from leadline.flows.generate.config import GenerateConfig

    judges = {field: options.pop(option) for option, field in _JUDGES.items()}
    models = {name: options.pop(name) for name in _MODELS}
    if options["overlap"] is None:
        options["overlap"] = options["chunk_size"] // 10
    with refusals("generate", GenerateConfig):
        return GenerateConfig(
            **options | {"judges": Judges(**judges), "models": Models(**models), "store": session.store}
        )


def _check(config: GenerateConfig) -> None:
    """Refuse what the flow would refuse, before a server is waited for."""
    from leadline.evaluators.core.context import EvalContext
    from leadline.flows.generate.prepare import corpus_of, embed_of, output_of, settings_of

    output_of(config)
    embed_of(config, EvalContext(settings_of(config)))
    corpus_of(config)


def _run(config: GenerateConfig) -> GenerateResult:
    from leadline.flows.generate.flow import generate as flow

    result: GenerateResult = flow(config)
    return result


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
