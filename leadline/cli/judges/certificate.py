"""``leadline judges certify``: a judge's configuration held against the rows that people labelled."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.cli.judges.choice import access_of, labelled_options, say_needs
from leadline.evaluators.ground import count
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, check_ledger, say, session_options

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.certificates import Certificate

NOT_CERTIFIED: Final = 1


@click.command("certify")
@click.argument("run_name", metavar="[RUN]", default="latest")
@click.option("--judge", "model", metavar="MODEL", help="Another judge than the run's.")
@click.option(
    "--held-out", is_flag=True, help="Take only half of the labels, told by their rows: no prompt was chosen by them."
)
@labelled_options
@session_options
@click.pass_obj
def judges_certify(
    session: Session,
    /,
    run_name: str,
    model: str | None,
    held_out: bool,
    set_name: str | None,
    question: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Certify the judge of RUN by the rows that people labelled.

    It is asked about them as it is set up now. Scores that the store has are not asked for again. The certificate stays
    beside the labels, and the run shows it if it has the same prompt and judge. A judge that is not certified leaves
    with exit code 1.
    """
    from leadline.flows.judges import prepare_certifying
    from leadline.flows.shared.judge_access import judges_of, limits_of
    from leadline.tasks.pipeline import correct_again
    from leadline.tasks.runs.lookup import find_run

    store = session.open_store()
    access = access_of(options | {"model": model})
    judges = judges_of(access) if model else ()
    found = prepare_certifying(store, find_run(store, run_name), question, set_name, judges=judges, held_out=held_out)
    say_needs({found.judging.metric.id: found.need()})
    if dry_run:
        return 0
    check_ledger(session.store)
    certificate, report = found.certified(limits_of(access))
    if found.changed:
        say(f"Prompt or judge are no longer those of run {found.run.id}, which does not get this certificate.")
    else:
        correct_again(store, found.run)
    if found.known.is_whole:
        say("Each row of the dataset has a label: nobody drew them from others, and the certificate is not kept.")
    if as_json:
        print_json(asdict(certificate))
    else:
        _print_certificate(certificate, missing=found.rows.missing, unjudged=report.stale)
    return 0 if certificate.state == "valid" else NOT_CERTIFIED


def _print_certificate(found: Certificate, *, missing: int, unjudged: int) -> None:
    from leadline.tasks.judges.labels.run_corrections import STATES, agreement_in_words

    half = ", the half held out" if found.held_out else ""
    rows = f"{count(found.n_labels, 'labelled row')} of {count(found.n_people, 'person', 'people')}{half}"
    click.echo(f"{clean(found.question)} · {rows}")
    words = agreement_in_words(found)
    if words:
        click.echo(f"  {words}")
    click.echo(f"  prompt+model {found.config[:6]}: {STATES[found.state]}")
    for number, why in (
        (missing, "left out: their texts are in no dataset of the store"),
        (unjudged, "without a verdict of the judge"),
    ):
        if number:
            click.echo(f"  {count(number, 'labelled row')} {why}.")
