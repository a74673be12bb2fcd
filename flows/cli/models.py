"""``leadline models``: which local weights there are, who needs them, and how they get here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from evaluators.errors import UsageError
from flows.cli.output import print_json, print_table
from flows.cli.session import say, session_options

if TYPE_CHECKING:
    from evaluators.models.refs import ModelRef

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List the weights that evaluators use by default, and whether they are on this machine."""
    if context.invoked_subcommand:
        return
    from evaluators.models.weights import status

    rows = [(status(ref), users) for ref, users in _known().items()]
    if as_json:
        print_json(
            [
                {
                    "kind": found.ref.kind,
                    "source": found.ref.source,
                    "revision": found.ref.revision,
                    "present": found.present,
                    "path": found.path,
                    "bytes": found.size,
                    "problem": found.problem,
                    "evaluators": users,
                }
                for found, users in rows
            ]
        )
        return
    print_table(
        ("model", "kind", "here", "size", "evaluators"),
        [
            (
                found.ref,
                found.ref.kind,
                "yes" if found.present else f"no: {found.problem}",
                "-" if found.size is None else _size(found.size),
                ", ".join(users) or "none by default",
            )
            for found, users in rows
        ],
        right=("size",),
    )


@models.command()
@click.argument("names", nargs=-1, required=True, metavar="SOURCE|EVALUATOR…")
@click.option("--allow-pickle", is_flag=True, help="Fetch pickled weights too, which can run code when loaded.")
@session_options
def pull(names: Sequence[str], allow_pickle: bool) -> None:
    """Fetch weights: those of a Hugging Face id (optionally ID@REVISION), or all that an evaluator needs."""
    from evaluators.models.weights import pull as fetch

    for ref in dict.fromkeys(ref for name in names for ref in _meant(name)):
        say(f"Fetching {ref} …")
        click.echo(f"{ref}: {fetch(ref, allow_pickle=allow_pickle)}")


def _known() -> dict[ModelRef, tuple[str, ...]]:
    """Return the weights that Leadline knows by name, each with the evaluators that need it by default."""
    from evaluators.models.refs import OFFLINE, ModelRef
    from evaluators.models.weights import STSB_ROBERTA_BASE, needed
    from evaluators.registry import all_evaluators
    from evaluators.toolbox import Toolbox

    return {ModelRef("embedder", OFFLINE): (), STSB_ROBERTA_BASE: ()} | needed(
        [kind() for kind in all_evaluators().values()], Toolbox()
    )


def _meant(name: str) -> tuple[ModelRef, ...]:
    from evaluators.models.weights import needed, parse_ref
    from evaluators.registry import all_evaluators
    from evaluators.toolbox import Toolbox

    kind = all_evaluators().get(name)
    if kind is None:
        matches = tuple(ref for ref in _known() if name in (ref.source, str(ref), f"{ref.source}@{ref.revision}"))
        return matches or (parse_ref(name),)
    refs = tuple(needed([kind()], Toolbox()))
    if not refs:
        raise UsageError(f"{name} needs no weights.")
    return refs


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.0f} {_UNITS[-1]}"
