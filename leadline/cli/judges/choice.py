"""``leadline judges compare``, ``train``, ``improve`` and ``certify``: what people's labels say of judges."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground import count
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import (
    LABELS_HELP,
    F,
    Session,
    check_ledger,
    say,
    server_option,
    session_options,
)
from leadline.tasks.ground.numbers import duration, money
from leadline.tasks.runs.lookup import find_run

if TYPE_CHECKING:
    from leadline.flows.shared.settings import JudgeAccess
    from leadline.tasks.judges.labels.certificates import Certificate
    from leadline.tasks.judges.labels.judge_comparison import ComparedJudge, JudgeComparison
    from leadline.tasks.judges.labels.judging import LabelsNeed


NOT_CERTIFIED: Final = 1


def labelled_options(command: F) -> F:
    """Give a command the options that name labelled rows, where judges are, and what may be spent."""
    options = (
        click.option("--labels", "set_name", metavar="SET", help=LABELS_HELP),
        click.option(
            "--metric",
            "question",
            default="",
            metavar="NAME",
            help="EVALUATOR or EVALUATOR.METRIC that people labelled. Default: the only one.",
        ),
        click.option("--judge-api-base", "api_base", metavar="URL", help="Address of the judges' server."),
        click.option("--config", metavar="FILE", help="File with named judges.  [default: leadline.toml]"),
        click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Judge calls that may be made."),
        click.option("--max-cost", type=click.FloatRange(0), metavar="USD", help="US dollars that may be spent."),
        click.option("--team", metavar="NAME", help="Team whose monthly budget is charged."),
        click.option("--dry-run", is_flag=True, help="Say how many calls it takes, and ask nobody."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def access_of(options: dict[str, Any]) -> JudgeAccess:
    """Return where judges are named and what may be spent, from the options of a command."""
    from leadline.flows.command.options import fill_in
    from leadline.flows.shared.settings import JudgeAccess

    return fill_in(JudgeAccess, "judges", {name: value for name, value in options.items() if value is not None})


@click.command("compare")
@click.argument("names", nargs=-1, required=True, metavar="JUDGE JUDGE…")
@click.option("--held-out", is_flag=True, help="Take only the half of the rows on which a choice is certified.")
@labelled_options
@session_options
@click.pass_obj
def judges_compare(
    session: Session,
    /,
    names: tuple[str, ...],
    held_out: bool,
    set_name: str | None,
    question: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Say which judge agrees with people more often.

    All are asked about the same labelled rows. Scores that the store has are not asked for again.
    """
    from leadline.flows.certify_judges import candidates

    store = session.open_store()
    found = candidates(store, names, set_name, question, access_of(options), held_out=held_out)
    say_needs(found.needs())
    if dry_run:
        return
    check_ledger(session.store)
    comparison = found.compared(found.judged())
    if as_json:
        print_json(asdict(comparison))
    else:
        _print_comparison(comparison)


@click.command("train")
@click.argument("name", metavar="JURY")
@click.option("--all", "everything", is_flag=True, help="Learn from all rows, and leave none to measure on.")
@labelled_options
@session_options
@click.pass_obj
def judges_train(
    session: Session,
    /,
    name: str,
    everything: bool,
    set_name: str | None,
    question: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn from labels how often the judges of a jury are right.

    What was learned is printed for leadline.toml. Half of the rows are learned from. The other half, which judges
    compare takes with --held-out, says how good the jury is.
    """
    from leadline.flows.certify_judges import candidates, jury_named
    from leadline.tasks.judges.labels.jury_training import train_jury

    store, access = session.open_store(), access_of(options)
    jury = jury_named(name, access)
    members = [member.key for member in jury.members]
    found = candidates(store, members, set_name, question, access)
    say_needs(found.needs())
    if dry_run:
        return
    check_ledger(session.store)
    trained = train_jury(jury, found.judged(), everything=everything)
    if as_json:
        print_json(asdict(trained) | {"weights": trained.weights.model_dump(mode="json")})
        return
    for each in trained.held_out:
        how = f"{_share(each.value)} of {count(each.rows, 'row')}" if trained.binary else f"off by {each.value:.3f}"
        ends = "" if each.low is None or each.high is None else f" ({100 * each.low:.1f} to {100 * each.high:.1f})"
        say(f"{clean(each.name)}: {'agrees on ' * trained.binary}{how}{ends}, held out")
    say(f"Learned from {count(trained.rows, 'label')}. {clean(trained.advice)}")
    click.echo(trained.toml, nl=False)


@click.command("improve", cls=GroupedCommand)
@click.argument("name", metavar="JUDGE")
@click.option("--by", "proposer", metavar="MODEL", help="Judge or model that proposes guidance.  [default: JUDGE]")
@labelled_options
@server_option
@session_options
@click.pass_obj
def judges_improve(
    session: Session,
    /,
    name: str,
    proposer: str | None,
    set_name: str | None,
    question: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Add guidance from labels to a judge's prompts, if that is better.

    A model proposes instructions and examples from rows on which judge and people differ, in one half of the labelled
    cases. The other half says whether the judge agrees with people more with them. Only then they are printed for
    leadline.toml; else the exit code is 1. What came of it stays beside the labels.
    """
    from leadline.flows.command.options import fill_in
    from leadline.flows.command.running import print_outcome, run_job
    from leadline.flows.improve_judge import ImproveJudge, ImproveJudgeConfig

    job, access = ImproveJudge(), access_of(options | {"model": name})
    named = {"proposer": proposer, "labels": set_name, "metric": question, "judges": access, "store": session.store}
    config = fill_in(ImproveJudgeConfig, "judges improve", named)
    if dry_run:
        for line in job.notices(job.check(config)):
            say(clean(line))
        return 0
    result = run_job(session, job, config)
    print_outcome(job, result, as_json=as_json)
    if result.is_better and not as_json:
        click.echo(result.improvement.toml, nl=False)
    return 0 if result.is_better else NOT_CERTIFIED


def say_needs(needs: dict[str, LabelsNeed]) -> None:
    """Say before judges are asked what that takes.

    Args:
        needs: What each judge still has to answer, by its name.
    """
    for name, need in needs.items():
        say(clean(f"{name}: {need.in_words}"))


def _print_comparison(found: JudgeComparison) -> None:
    rows = f"{count(found.rows, 'labelled row')} of {count(found.people, 'person', 'people')}"
    half = ", the half held out for certifying" if found.held_out else ""
    click.echo(f"{found.question} · {rows}{half}")
    if found.binary:
        columns = ["judge", "agrees", "95 %", "κ", "κ 95 %", "AC1", "catches bad", "passes good"]
    else:
        columns = ["judge", "off by", "95 %", "rank correlation"]
    paid = ["calls/row", "$/1,000 rows", "reply median", "reply 95 %"]
    lines = [[clean(judge.name), *_figures(judge), *_costs(judge)] for judge in found.judges]
    print_table([*columns, *paid], lines, right=[*columns[1:], *paid])
    for pair in found.pairs:
        p = "" if pair.p_adjusted is None else f" p {pair.p_adjusted:.2g}"
        p += f" (Holm over {len(found.pairs)} pairs)" if p and len(found.pairs) > 1 else ""
        click.echo(clean(pair.sentence) + p)
    notes = [
        (found.untold, "left out: people are tied or can't tell"),
        (found.missing, "left out: their texts are in no dataset of the store"),
    ]
    for rows_left, why in notes:
        if rows_left:
            click.echo(f"{count(rows_left, 'labelled row')} {why}.")
    for judge in found.judges:
        for reason, number in judge.unjudged.items():
            click.echo(f"{count(number, 'row')} without a verdict of {clean(judge.name)}: {clean(reason)}")
    if found.weighted:
        click.echo("Rows count by the chance with which they were drawn.")


def _figures(judge: ComparedJudge) -> list[str]:
    agreed = judge.agreed
    if agreed is None:
        off = ["-" if value is None else f"{value:.3f}" for value in (judge.error, judge.error_low, judge.error_high)]
        return [off[0], f"{off[1]} to {off[2]}", _plain(judge.rank_correlation)]
    return [
        _share(agreed.accuracy.value),
        f"{100 * agreed.accuracy.low:.1f} to {100 * agreed.accuracy.high:.1f}",
        _plain(agreed.kappa),
        f"{_plain(agreed.kappa_low)} to {_plain(agreed.kappa_high)}",
        _plain(agreed.ac1),
        _share(agreed.recall_fail.value),
        _share(agreed.recall_pass.value),
    ]


def _costs(judge: ComparedJudge) -> list[str]:

    costs = judge.costs
    return [
        f"{costs.calls:.3g}",
        money(costs.usd_per_1000).removeprefix("$"),
        duration(costs.seconds_median),
        duration(costs.seconds_p95),
    ]


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"


def _plain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


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
    from leadline.flows.certify_judges import prepare_certifying
    from leadline.flows.shared.judge_access import judges_of, limits_of
    from leadline.tasks.pipeline import correct_again

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
