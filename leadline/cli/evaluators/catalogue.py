"""``leadline evaluators list``, ``show``, ``check``, ``suites`` and ``trust``: what they measure, how well."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import click

from leadline.evaluators.core import FAMILIES, Evaluator, all_evaluators, describe, get
from leadline.evaluators.core.suites import look_alikes, purposes_of, suite
from leadline.evaluators.core.suites import suites as named
from leadline.evaluators.core.user_evaluators import load_evaluator_file
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.choice import evaluator_files_of
from leadline.flows.command.output import clean, number, plain_text, print_json, print_table
from leadline.flows.command.session import session_options
from leadline.tasks.publish.trust_cards import TrustCard, read_cards
from leadline.testing import check_evaluator

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
@click.argument("asked", metavar="ID|FILE.py…", nargs=-1, required=True, type=click.Path())
@session_options
def check(asked: Sequence[str]) -> int:
    """Check evaluators by their ids, or those of Python files.

    Metadata, metrics, absurd texts, values in range, the same score twice: prints one line a check. A check that fails
    leaves with exit code 1. A model that reads a megabyte takes minutes.
    """
    failed = 0
    for kind in (kind for name in asked for kind in _kinds(name)):
        for found in check_evaluator(kind):
            outcome = "FAIL" if found.problem else "skip" if found.skipped else "ok"
            why = clean(found.problem or found.skipped)
            click.echo(f"{outcome:<4}  {kind.spec.id}: {found.name}{f' ({why})' if why else ''}")
            failed += bool(found.problem)
    return CHECK_FAILED if failed else 0


def _kinds(name: str) -> Sequence[type[Evaluator]]:
    """Return the evaluators of a file, or the one of an id."""
    return load_evaluator_file(name) if name.endswith(".py") or Path(name).is_file() else (get(name),)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def suites(as_json: bool) -> None:
    """List the named sets of evaluators."""
    rows = [(name, text, suite(name)) for name, text in named().items()]
    if as_json:
        print_json([{"name": name, "description": text, "evaluators": ids} for name, text, ids in rows])
    else:
        print_table(("suite", "evaluators", "what it holds"), [(name, len(ids), text) for name, text, ids in rows])


def _load(files: Sequence[str]) -> None:
    for file in evaluator_files_of(files, None):
        load_evaluator_file(file)


def _chosen(family: str | None, suite_name: str | None) -> list[type[Evaluator]]:
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
    return "-" if value is None else json.dumps(value, ensure_ascii=False)


_AGAIN: Final = "python -m benchmarks.trust DIR --metric {}"


@click.command()
@click.argument("evaluator", metavar="[EVALUATOR]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def trust(evaluator: str | None, as_json: bool) -> None:
    """Show how far evaluators agree with people on public data.

    Each figure stands with its data, number of labels, interval and what to beware of. How far your judge agrees with
    your people says `leadline labels report`.
    """
    cards = read_cards(evaluator)
    if evaluator is not None and not cards:
        raise _unmeasured(evaluator)
    if as_json:
        print_json([asdict(card) for card in cards])
    elif evaluator is None:
        _overview(cards)
    else:
        _in_full(cards)


def _unmeasured(evaluator: str) -> UsageError:
    """Return why there is no card, and what to do."""
    known = all_evaluators()
    kind = known.get(evaluator)
    if kind is None:
        near = difflib.get_close_matches(evaluator, known, n=1)
        return UsageError(
            f"There is no evaluator called {evaluator!r}.",
            hint=f"Did you mean {near[0]}?" if near else "List them with: leadline evaluators list",
            code=ErrorCode.PLAN_NO_EVALUATOR,
        )
    if kind.spec.judge:
        return UsageError(
            f"How far {evaluator} agrees with people is a matter of the judge that it asks.",
            hint=f"On your data: leadline labels sample --metric {evaluator}. On public data: "
            f"{_AGAIN.format(evaluator)} --judge NAME, see docs/trust.md.",
            code=ErrorCode.PLAN_NO_EVALUATOR,
        )
    measured = sorted({card.evaluator for card in read_cards()})
    return UsageError(
        f"Nobody has measured {evaluator!r} against people yet.",
        hint=f"Measured: {', '.join(measured)}. Measure your own: leadline labels sample.",
        code=ErrorCode.PLAN_NO_EVALUATOR,
    )


def _overview(cards: Sequence[TrustCard]) -> None:
    """Print a table for each thing that people judged, the best evaluator first."""
    headlines = [card for card in cards if card.headline and card.value is not None]
    for data, claim in dict.fromkeys((card.data, card.claim) for card in headlines):
        mine = [card for card in headlines if (card.data, card.claim) == (data, claim)]
        measure = mine[0].measure.rpartition(": ")[2]
        click.echo(f"{data}: {claim}; {measure}{_ceiling(mine)}")
        print_table(
            ("evaluator", "value", "95 % interval", "labels", "> chance"),
            [
                (
                    card.evaluator,
                    number(card.value, 2),
                    _interval(card, 2),
                    number(card.n),
                    "" if card.chance is None else "no" if card.no_better_than_chance else "yes",
                )
                for card in sorted(mine, key=lambda card: -(card.value or 0))
            ],
            right=("value", "labels"),
        )
        click.echo("")
    for card in cards:
        if card.value is None:
            click.echo(f"{card.evaluator}: {card.data}: {_not_measured(card)}")
    click.echo("Further figures, failures and how to measure again: leadline evaluators trust EVALUATOR")


def _ceiling(cards: Sequence[TrustCard]) -> str:
    people = next((card.people for card in cards if card.people is not None), None)
    return "" if people is None else f" (people among themselves {people:.2f})"


def _interval(card: TrustCard, digits: int) -> str:
    return "-" if card.low is None or card.high is None else f"{card.low:.{digits}f} to {card.high:.{digits}f}"


def _not_measured(card: TrustCard) -> str:
    if not card.lacks:
        return card.note
    return f"not measured here, needs the weights {card.lacks}"


def _in_full(cards: Sequence[TrustCard]) -> None:
    """Print all figures of one evaluator, what to beware of, failures, and how to measure again."""
    for data in dict.fromkeys(card.data for card in cards):
        mine = [card for card in cards if card.data == data]
        click.echo(f"{data} ({mine[0].licence})")
        figures = [card for card in mine if card.value is not None]
        if figures:
            print_table(
                ("what people judged", "measure", "value", "95 % interval", "labels"),
                [
                    (card.claim, card.measure, number(card.value), _interval(card, 3), number(card.n))
                    for card in figures
                ],
                right=("value", "labels"),
            )
        click.echo("".join(f"  {line}\n" for line in _remarks(mine)))
    evaluator, version, day = cards[0].evaluator, cards[0].version, cards[0].measured
    click.echo(f"Version {version} of {evaluator}{f', measured on {day}' if day else ''}.")
    click.echo(f"Measure again, DIR having the sets: {_AGAIN.format(evaluator)}")


def _remarks(cards: Sequence[TrustCard]) -> list[str]:
    """Return what is to be said of the figures on one set, a line each."""
    told = [f"{card.claim}: {_not_measured(card)}" for card in cards if card.value is None]
    weak = dict.fromkeys(card.claim for card in cards if card.no_better_than_chance)
    people = {card.measure.rpartition(": ")[2]: card.people for card in cards if card.people is not None}
    settings = dict.fromkeys(card.setting for card in cards if card.setting)
    if weak:
        told.append(f"No better than chance: {', '.join(weak)}.")
    if people:
        told.append(f"People among themselves: {', '.join(f'{name} {value:.3f}' for name, value in people.items())}.")
    if settings:
        told.append(f"Measured with: {'; '.join(settings)}.")
    told += [card.note for card in cards if card.note and card.value is not None]
    told += [f"Wrong: {example}" for card in cards for example in card.failures]
    return [clean(line) for line in dict.fromkeys(told)]
