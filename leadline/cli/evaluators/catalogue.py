"""``leadline evaluators list``, ``show``, ``check`` and ``suites``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import clean, plain_text, print_json, print_table
from leadline.flows.command.session import session_options

if TYPE_CHECKING:
    from leadline.evaluators.core import Evaluator


CHECK_FAILED: Final = 1

_FILES: Final = click.option(
    "--evaluators",
    "files",
    type=click.Path(),
    multiple=True,
    metavar="FILE.py",
    help="Python file with evaluators of your own; repeatable.",
)


@click.command("list")
@click.option("--family", metavar="NAME", help="Only this family.")
@click.option("--suite", metavar="NAME", help="Only this suite.")
@click.option("--find", metavar="TEXT", help="Only those whose id, purpose, description or keywords hold this text.")
@_FILES
@click.option("--json", "as_json", is_flag=True, help="Print JSON: everything that is known of each.")
@session_options
def list_evaluators(
    family: str | None, suite: str | None, find: str | None, files: Sequence[str], as_json: bool
) -> None:
    """List the evaluators: what each measures, and what it needs."""
    _load(files)
    chosen = [kind for kind in _chosen(family, suite) if find is None or _matches(kind, find)]
    if as_json:
        from leadline.evaluators.core import describe
        from leadline.evaluators.core.suites import purposes_of

        print_json([describe(evaluator) | {"purposes": purposes_of(evaluator)} for evaluator in chosen])
        return
    print_table(("id", "use it for", "measures", "needs", "lane"), [_line(evaluator) for evaluator in chosen])


@click.command()
@click.argument("evaluator_id", metavar="ID")
@_FILES
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def show(evaluator_id: str, files: Sequence[str], as_json: bool) -> None:
    """Show one evaluator: its method, inputs, metrics and parameters."""
    from leadline.evaluators.core import describe, get

    _load(files)
    evaluator = get(evaluator_id)
    description = cast("Mapping[str, Any]", describe(evaluator))
    if as_json:
        print_json(description)
        return
    click.echo(f"{description['id']}: {description['name']}\n")
    click.echo(f"{plain_text(inspect.cleandoc(evaluator.__doc__ or ''))}\n")
    for label, text in _facts(evaluator):
        click.echo(f"{label:<12} {text}")
    click.echo("\nMetrics")
    print_table(("key", "name", "better", "range", "threshold", "description"), _metric_lines(description["metrics"]))
    click.echo("\nParameters")
    print_table(
        ("name", "default", "effect", "description"),
        [
            (
                detail["name"],
                _shown(detail["default"]),
                detail["effect"],
                plain_text(detail["description"]),
            )
            for detail in description["parameter_details"]
        ],
    )


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path())
@session_options
def check(files: Sequence[str]) -> int:
    """Check the evaluators of Python files.

    Metadata, metrics, absurd texts, values in range, the same score twice: prints one line a check. A check that fails
    leaves with exit code 1.
    """
    from leadline.evaluators.core.user_evaluators import load_evaluator_file
    from leadline.testing import check_evaluator

    failed = 0
    for kind in (kind for file in files for kind in load_evaluator_file(file)):
        for found in check_evaluator(kind):
            outcome = "FAIL" if found.problem else "skip" if found.skipped else "ok"
            why = clean(found.problem or found.skipped)
            click.echo(f"{outcome:<4}  {kind.spec.id}: {found.name}{f' ({why})' if why else ''}")
            failed += bool(found.problem)
    return CHECK_FAILED if failed else 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def suites(as_json: bool) -> None:
    """List the named sets of evaluators."""
    from leadline.evaluators.core.suites import suite
    from leadline.evaluators.core.suites import suites as named

    rows = [(name, text, suite(name)) for name, text in named().items()]
    if as_json:
        print_json([{"name": name, "description": text, "evaluators": ids} for name, text, ids in rows])
    else:
        print_table(("suite", "evaluators", "what it holds"), [(name, len(ids), text) for name, text, ids in rows])


def _load(files: Sequence[str]) -> None:
    from leadline.evaluators.core.user_evaluators import load_evaluator_file
    from leadline.flows.shared.judge_access import evaluator_files_of

    for file in evaluator_files_of(files, None):
        load_evaluator_file(file)


def _chosen(family: str | None, suite_name: str | None) -> list[type[Evaluator]]:
    from leadline.evaluators.core import FAMILIES, all_evaluators
    from leadline.evaluators.core.suites import suite

    if family is not None and family not in FAMILIES:
        raise UsageError(
            f"There is no family called {family!r}.",
            hint=f"Families: {', '.join(FAMILIES)}.",
            code=ErrorCode.PLAN_NO_SUITE,
        )
    ids = set(suite(suite_name)) if suite_name else None
    return [
        evaluator
        for id_, evaluator in all_evaluators().items()
        if (family is None or evaluator.spec.family == family) and (ids is None or id_ in ids)
    ]


def _line(evaluator: type[Evaluator]) -> Sequence[object]:
    from leadline.evaluators.core.suites import purposes_of

    spec = evaluator.spec
    needs = ", ".join(field.value for field in spec.required)
    return spec.id, ", ".join(purposes_of(evaluator)), _measures(evaluator), needs, spec.lane


def _measures(evaluator: type[Evaluator]) -> str:
    """Return the first sentence of an evaluator's description."""
    return " ".join(plain_text(inspect.cleandoc(evaluator.__doc__ or "")).partition("\n\n")[0].split()).rstrip(".")


def _matches(evaluator: type[Evaluator], text: str) -> bool:
    spec = evaluator.spec
    known = " ".join((*map(str, _line(evaluator)), spec.name, spec.family, spec.origin, *spec.keywords))
    return text.casefold() in known.casefold()


def _facts(evaluator: type[Evaluator]) -> list[tuple[str, str]]:
    from leadline.evaluators.core.suites import look_alikes, purposes_of

    spec = evaluator.spec
    alike = look_alikes(spec.id)
    inputs = ", ".join(f"{field.value}{' (optional)' if field in spec.optional else ''}" for field in spec.inputs)
    scope = " and ".join(
        name for name, applies in (("language models", spec.llm), ("RAG systems", spec.rag)) if applies
    )
    facts = [
        ("Use it for", ", ".join(purposes_of(evaluator)) or "special purposes: it runs where it is named"),
        *((("Looks like", ", ".join(alike)),) if alike else ()),
        ("Family", spec.family),
        ("Origin", spec.origin),
        ("Inputs", inputs),
        ("Evaluates", scope),
        ("Lane", spec.lane),
    ]
    if spec.judge:
        facts.append(("Judge", spec.judge))
    if spec.source:
        facts.append(("Source", spec.source))
    return [*facts, ("Version", spec.version)]


def _metric_lines(metrics: Sequence[Mapping[str, Any]]) -> list[Sequence[object]]:
    return [
        (
            metric["key"] + (" *" if metric["primary"] else ""),
            metric["name"],
            "higher" if metric["higher_is_better"] else "lower",
            f"{metric['range'][0]} to {metric['range'][1]}",
            "-" if metric["threshold"] is None else metric["threshold"],
            plain_text(metric["description"]),
        )
        for metric in metrics
    ]


def _shown(value: object) -> str:
    import json

    return "-" if value is None else json.dumps(value, ensure_ascii=False)
