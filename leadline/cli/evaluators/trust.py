"""``leadline evaluators trust``: how far evaluators agree with people."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.session import session_options

if TYPE_CHECKING:
    from leadline.tasks.publish.trust_cards import TrustCard

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
    from leadline.tasks.publish.trust_cards import read_cards

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
    from leadline.evaluators.core import all_evaluators
    from leadline.tasks.publish.trust_cards import read_cards

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
