"""``leadline trust``: how far evaluators agree with people."""

from __future__ import annotations

import math
from dataclasses import asdict

import click

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.flows.cli.output import clean, number, print_json, print_table
from leadline.flows.cli.session import session_options


@click.command()
@click.argument("evaluator", metavar="[EVALUATOR]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def trust(evaluator: str | None, as_json: bool) -> None:
    """Show how far evaluators agree with people on public data.

    Each figure stands with its data, number of labels, interval and what to beware of. How far your judge agrees with
    your people says `leadline labels report`.
    """
    from leadline.tasks.trust.trust_cards import read_cards

    cards = read_cards(evaluator)
    if as_json:
        print_json([asdict(card) for card in cards])
        return
    if not cards:
        known = sorted({card.evaluator for card in read_cards()})
        raise UsageError(
            f"Nobody has measured {evaluator!r} against people yet.",
            hint=f"Measured: {', '.join(known)}. Measure your own: leadline labels sample.",
            code=ErrorCode.PLAN_NO_EVALUATOR,
        )
    print_table(
        ("evaluator", "what people judged", "measure", "value", "95 % interval", "labels", "data"),
        [
            (
                card.evaluator,
                clean(card.claim),
                card.measure,
                f"{card.value:.3f}",
                "-" if math.isnan(card.low) else f"{card.low:.3f} to {card.high:.3f}",
                number(card.n),
                card.data,
            )
            for card in cards
        ],
        right=("value", "labels"),
    )
    for evaluated in dict.fromkeys(card.evaluator for card in cards):
        notes = dict.fromkeys(card.note for card in cards if card.evaluator == evaluated and card.note)
        click.echo(f"{evaluated}: {' '.join(notes)}")
