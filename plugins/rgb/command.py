"""``leadline data rgb``: the benchmark RGB as a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline.evaluators.core.suites import suite
from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.running import run_job
from leadline.flows.command.session import Session, say, server_option, session_options
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.settings import Dispatch
from leadline.tasks.ground.files import digest
from leadline.tasks.runs.lookup import find_run

if TYPE_CHECKING:
    from leadline.plugins.rgb.paper_tables import Table
    from leadline.tasks.store.store import Run, Store


@click.group()
@session_options
def rgb() -> None:
    """Make RGB's test cases, and print the paper's tables."""


@rgb.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(), metavar="DATA…")
@click.option(
    "--noise",
    default="0,0.2,0.4,0.6,0.8",
    show_default=True,
    metavar="N,N…",
    help="Shares of noise among the documents.",
)
@click.option("--passages", type=click.IntRange(1), default=5, show_default=True, help="Documents per question.")
@click.option("--seed", type=int, default=2333, show_default=True, help="Of the order of the documents.")
@click.option("--closed-book", is_flag=True, help="Also ask the counterfactual questions without documents.")
@click.option("--prompt", type=click.Path(exists=True, dir_okay=False), help="Jinja template over documents and query.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    default="rgb.jsonl",
    show_default=True,
    help="The suite to write.",
)
@session_options
def build(
    data: Sequence[str], noise: str, passages: int, seed: int, closed_book: bool, prompt: str | None, output: str
) -> None:
    """Write the test cases of RGB's files as a suite for `leadline collect`.

    DATA are files, or folders with some. The same documents in the same order as the benchmark's own program, for the
    same seed.
    """
    from leadline.plugins.rgb.build import Plan
    from leadline.plugins.rgb.build import build as write

    plan = Plan(
        noise=_levels(noise),
        passages=passages,
        seed=seed,
        prompt=Path(prompt).read_text(encoding="utf-8") if prompt else None,
        closed_book=closed_book,
    )
    built = write(data, Path(output), plan)
    for (testbed, task), number in built.cases.items():
        say(f"{testbed}: {count(number, 'case')} of {task.replace('_', ' ')}")
    click.echo(str(built.path))


@rgb.command()
@click.argument("what", nargs=-1, required=True, metavar="RUN|FILE…")
@click.option(
    "--scorer",
    type=click.Choice(("space", "official")),
    help="For files: the application's rules or the paper's.  [default: space]",
)
@click.option("--model", metavar="NAME", help="For the benchmark's own files: the model, if their names lack it.")
@click.option("--testbed", metavar="NAME", help="For the benchmark's own files: en, zh_refine, en_int, …")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_option
@session_options
@click.pass_obj
def table(
    session: Session, /, what: Sequence[str], scorer: str | None, model: str | None, testbed: str | None, as_json: bool
) -> None:
    """Print the paper's tables from a run, or from a file of answers.

    A file is evaluated first. It is a dataset with the answers to the cases of `leadline data rgb build`, or some files
    that the benchmark's own program wrote (prediction_….json).
    """
    from leadline.plugins.rgb.paper_tables import tables

    store = session.open_store()
    paths = [name for name in what if Path(name).exists()]
    if not paths and len(what) == 1:
        if scorer or model or testbed:
            raise UsageError(
                "A run has its scorer, models and testbeds already.",
                hint="Give the file of answers to score it anew.",
                code=ErrorCode.RGB_RESULTS,
            )
        run = _run_called(store, what[0])
    elif len(paths) < len(what):
        absent = next(name for name in what if name not in paths)
        raise UsageError(f"There is no file {absent!r}.", hint="Give one run, or files.", code=ErrorCode.RGB_FILE)
    else:
        run = store.run(_evaluated(session, _dataset(session, paths, model, testbed), scorer or "space"))
    found = tables(store, run)
    if as_json:
        print_json({"run": run.id, "tables": [each.to_json() for each in found]})
        return
    for each in found:
        _print(each)
    say(f"Run {run.id}, scorer {_scorer(run)}. Per cent, with 95 % intervals.")


def _run_called(store: Store, name: str) -> Run:
    try:
        return find_run(store, name)
    except UsageError as error:
        raise UsageError(
            f"There is no file {name!r}, and no such run: {error.message}", hint=error.hint, code=ErrorCode.RGB_FILE
        ) from None


def _scorer(run: Run) -> str:
    """Return by which rules a run's RGB evaluators read answers."""
    scorers = {
        str(identity.get("params", {}).get("scorer"))
        for name, identity in run.read().get("identities", {}).items()
        if name.startswith("rgb.")
    }
    return " and ".join(sorted(scorers))


def _levels(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is not a list of numbers.", hint="Write, for example: --noise 0,0.4", code=ErrorCode.RGB_OPTION
        ) from None


def _dataset(session: Session, paths: Sequence[str], model: str | None, testbed: str | None) -> str:
    """Return a dataset with the answers; the benchmark's own files become one in the store."""
    from leadline.plugins.rgb.predictions import convert, is_predictions

    if not all(is_predictions(path) for path in paths):
        if len(paths) > 1:
            raise UsageError(
                "Several files must all be the benchmark's own results.",
                hint="Give one dataset.",
                code=ErrorCode.RGB_RESULTS,
            )
        return paths[0]
    names = [*(str(Path(path).absolute()) for path in paths), model, testbed]
    target = session.open_store().root / "rgb" / f"{digest(names)[:12]}.jsonl"
    return str(convert(paths, target, model=model, testbed=testbed))


def _evaluated(session: Session, dataset: str, scorer: str) -> str:
    """Evaluate a dataset with RGB's evaluators; returns the run's id."""
    from leadline.flows.evaluate.job import Evaluate

    params: Mapping[str, dict[str, Any]] = {id_: {"scorer": scorer} for id_ in suite("rgb")}
    config = EvaluateConfig(
        dataset=dataset,
        suite="rgb",
        params=dict(params),
        dispatch=Dispatch.INLINE,
        store=session.store,
        name=f"RGB, scorer {scorer}",
    )

    return run_job(session, Evaluate(asks_here=True), config).run


def _print(table: Table) -> None:
    click.echo(f"\n{clean(table.title)}")
    print_table(
        ("model", *table.columns),
        [(model, *(cells.get(column, "-") for column in table.columns)) for model, cells in table.lines.items()],
        right=table.columns,
    )
