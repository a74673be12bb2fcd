"""``leadline evaluators models``: which local weights there are, who needs them, and how they get here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from leadline.evaluators.core import EvalContext, all_evaluators
from leadline.evaluators.core.model_evaluator import required_weights
from leadline.evaluators.ground import OFFLINE, ErrorCode, LeadlineError, ModelRef, UsageError, count
from leadline.evaluators.models.catalogue import ALTERNATIVES, SHORT_NAMES, download_size
from leadline.evaluators.models.weights import STSB_ROBERTA_BASE, WeightStatus, is_directory, parse_ref, status
from leadline.evaluators.models.weights import pull as fetch
from leadline.flows.command.output import print_json, print_table
from leadline.flows.command.session import say, session_options

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List local model weights, or fetch them.

    The list shows who needs them by default, and whether they are on this machine.
    """
    if context.invoked_subcommand:
        return
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
                    "download_bytes": download_size(found.ref),
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
                _size_of(found),
                ", ".join(users) or "none by default",
            )
            for found, users in rows
        ],
        right=("size",),
    )


@models.command()
@click.argument("names", nargs=-1, metavar="[SOURCE|EVALUATOR]…")
@click.option("--allow-pickle", is_flag=True, help="Fetch pickled weights too, which can run code when loaded.")
@session_options
def pull(names: Sequence[str], allow_pickle: bool) -> None:
    """Fetch weights.

    SOURCE is a Hugging Face id (optionally ID@REVISION); for an EVALUATOR all that it needs are fetched. Without a
    name, fetches what evaluators need by default. What is here already is checked. A failure does not keep the others
    from being fetched; it is reported at the end, with exit code 3.
    """
    refs = tuple(dict.fromkeys(ref for name in names for ref in _meant(name))) if names else tuple(_needed_by_default())
    _announce(refs, allow_pickle=allow_pickle)
    failures = []
    for ref in refs:
        say(f"Fetching {ref} …")
        try:
            click.echo(f"{ref}: {fetch(ref, allow_pickle=allow_pickle)}")
        except LeadlineError as error:
            say(f"{ref} failed.")
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        lines = [f"{len(failures)} of {count(len(refs), 'set')} of weights could not be fetched:", *map(str, failures)]
        raise LeadlineError("\n  ".join(lines), code=ErrorCode.MODEL_FETCH)


def _announce(refs: Sequence[ModelRef], *, allow_pickle: bool) -> None:
    """Say what will be fetched, and how much that is, before anything is."""
    found = [status(ref, allow_pickle=allow_pickle) for ref in refs]
    sizes = [download_size(each.ref) for each in found if not each.present]
    known = sum(size or 0 for size in sizes)
    unknown = sum(size is None for size in sizes)
    parts = [f"about {_size(known)}"] * bool(known) + [f"{count(unknown, 'set')} of unknown size"] * bool(unknown)
    say(f"To fetch: {count(len(sizes), 'set')} of weights, {' and '.join(parts)}." if sizes else "Nothing is missing.")
    for each in found:
        say(f"  {each.ref} ({each.ref.kind}): {'here, is checked' if each.present else _size_of(each)}")


def _known() -> dict[ModelRef, tuple[str, ...]]:
    """Return the weights that Leadline knows by name, each with the evaluators that need it by default."""
    needed = _needed_by_default()
    others = (ModelRef("embedder", OFFLINE), STSB_ROBERTA_BASE, *ALTERNATIVES)
    return needed | {ref: () for ref in others if ref not in needed}


def _needed_by_default() -> dict[ModelRef, tuple[str, ...]]:
    return required_weights([kind() for kind in all_evaluators().values()], EvalContext())


def _meant(name: str) -> tuple[ModelRef, ...]:
    """Return the weights that a name stands for: an evaluator's, or a whole repository, as what it is known to be.

    Raises:
        UsageError: It names nothing that can be fetched.
    """
    kind = all_evaluators().get(name)
    if kind is None:
        return (_repository(name),)
    refs = tuple(required_weights([kind()], EvalContext()))
    if not refs:
        raise UsageError(f"{name} needs no weights.", code=ErrorCode.MODEL_NAME)
    return refs


def _repository(name: str) -> ModelRef:
    """Return the weights of an id, or of a short name as evaluators take it; never the tokenizer alone."""
    ref = parse_ref(SHORT_NAMES.get(name, name))
    if is_directory(ref):
        raise UsageError(f"{ref.source} is a directory; there is nothing to fetch.", code=ErrorCode.MODEL_NAME)
    kinds = (known.kind for known in _known() if known.source == ref.source and known.kind != "tokenizer")
    return ModelRef(next(kinds, ref.kind), ref.source, ref.revision)


def _size_of(found: WeightStatus) -> str:
    """Return what weights take up here, or about how much there is to fetch."""
    if found.size is not None:
        return _size(found.size)
    expected = download_size(found.ref)
    return "-" if expected is None else f"about {_size(expected)}"


def _size(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}".replace(".0 ", " ") if size < 10 else f"{size:.0f} {_UNITS[unit]}"
