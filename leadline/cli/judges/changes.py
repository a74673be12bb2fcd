"""``leadline judges enrol``, ``check``, ``accept`` and ``status``: whether a judge is still the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError, count, number
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import F, Session, check_ledger, say, session_options

if TYPE_CHECKING:
    from leadline.flows.check_judges import CheckJudgesConfig
    from leadline.tasks.judges.drift.enrolment import Enrolment
    from leadline.tasks.judges.drift.judge_standing import JudgeStanding


CHANGED: Final = 1
NOT_CHECKED: Final = 3
_KEPT: Final = "Interrupted. Replies that came are kept: the same command goes on from there."
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _places(command: F) -> F:
    """Give a command that asks a judge the options that say where things are."""
    options: tuple[Callable[[F], F], ...] = (
        click.option("--config", metavar="FILE", help="File with named judges.  [default: leadline.toml]"),
        click.option("--evaluators-dir", metavar="DIR", help="Folder with judges of your own as YAML files."),
        click.option(
            "--evaluators", "evaluator_files", multiple=True, metavar="FILE", help="Python file with your evaluators."
        ),
        click.option("--team", metavar="TEAM", help="Team whose monthly budget the calls count against."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("enrol")
@click.argument("judge", metavar="JUDGE")
@click.option("--probes", required=True, metavar="FILE|RUN", help="Dataset or run, of which rows are drawn.")
@click.option("--n", "number", type=click.IntRange(10, 1_000), default=100, show_default=True, help="Rows to draw.")
@click.option(
    "-e", "--evaluator", "evaluators", multiple=True, metavar="ID", help="Ask for this evaluator; repeatable."
)
@_places
@session_options
@click.pass_obj
def judges_enrol(
    session: Session, /, judge: str, probes: str, number: int, evaluators: tuple[str, ...], **places: Any
) -> None:
    """Ask JUDGE about rows, to be able to tell later if it has changed.

    A hosted judge is asked about each row four times.
    """
    from leadline.flows.check_judges import enrol_judge
    from leadline.flows.command.running import stoppable

    check_ledger(session.store)
    with stoppable(_KEPT):
        enrolment = enrol_judge(judge, probes, number, evaluators, _config(session, places))
    _print_enrolment(enrolment)
    say(f"Then: leadline judges check {judge}")


@click.command("check")
@click.argument("judge", metavar="[JUDGE]", required=False)
@click.option(
    "--cached", is_flag=True, help="Take the day's check where there is one: nothing is asked, or paid, again."
)
@_AS_JSON
@_places
@session_options
@click.pass_obj
def judges_check(session: Session, /, judge: str | None, cached: bool, as_json: bool, **places: Any) -> int:
    """Ask JUDGE, or all that are enrolled, about the probes.

    Leaves with exit code 1 where a judge has changed, and with 3 where one could not be asked.
    """
    from leadline.flows.check_judges import CheckJudges
    from leadline.flows.command.running import stoppable

    check_ledger(session.store)
    with stoppable(_KEPT):
        wanted = CheckJudges().check(_config(session, places, *([judge] if judge else [])))
        found = list(wanted.checked(anew=not cached))
    if as_json:
        print_json([one.standing.to_json() | {"name": one.name, "not_checked": one.problem or None} for one in found])
    for one in found if not as_json else ():
        if one.problem:
            say(clean(one.problem), always=True)
        else:
            _print_standing(one.standing, one.name)
            if not one.asked and one.standing.state != "changed":
                say(f"  Nothing was asked: this is the day's check. Ask anew: leadline judges check {clean(one.name)}")
    if any(one.standing.state == "changed" for one in found):
        return CHANGED
    return NOT_CHECKED if any(one.problem for one in found) else 0


@click.command("accept")
@click.argument("judge", metavar="JUDGE")
@_places
@session_options
@click.pass_obj
def judges_accept(session: Session, /, judge: str, **places: Any) -> None:
    """Accept that JUDGE changed.

    Its scores from now on never mix with those from before.
    """
    from leadline.flows.check_judges import accept_judge
    from leadline.flows.command.running import stoppable

    check_ledger(session.store)
    with stoppable(_KEPT):
        enrolment = accept_judge(judge, _config(session, places))
    _print_enrolment(enrolment)
    say(
        f"It is in epoch {enrolment.epoch} now. Runs judge their rows anew; scores of before stay as they are, and "
        "certificates of before are stale."
    )


@click.command("status")
@click.argument("judge", metavar="[JUDGE]", required=False)
@_AS_JSON
@session_options
@click.pass_obj
def judges_status(session: Session, /, judge: str | None, as_json: bool) -> None:
    """Show how the enrolled judges stand; no judge is asked."""
    from leadline.tasks.judges.drift.judge_standing import standings

    every = standings(session.open_store())
    found = [one for one in every if judge in (None, one.name, one.model)]
    if judge and not found:
        names = ", ".join(clean(one.name) for one in every)
        raise UsageError(
            f"The judge {judge!r} is not enrolled{f'; enrolled are {names}' * bool(names)}.",
            hint=f"Enrol it: leadline judges enrol {judge} --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    if as_json:
        print_json([one.to_json() for one in found])
    elif not found:
        say("No judge is enrolled. Enrol one: leadline judges enrol JUDGE --probes FILE")
    elif judge:
        for one in found:
            _print_standing(one, one.name)
    else:
        now = datetime.now(UTC)
        print_table(
            ("judge", "model", "epoch", "state", "probes differ", "expected", "p", "hours ago"),
            [_line(one, now) for one in found],
            right=("epoch", "probes differ", "expected", "p", "hours ago"),
        )


def _line(standing: JudgeStanding, now: datetime) -> list[str]:
    check = standing.check
    told = ["", "", ""]
    if check:
        told = [
            f"{number(round(check.differing, 1))} of {check.probes}",
            number(round(check.expected, 1)),
            f"{check.p:.2g}",
        ]
    shown = [clean(standing.name), clean(standing.model), str(standing.epoch), standing.state]
    return [*shown, *told, f"{standing.hours_since_check(now):.0f}" if check else ""]


def _config(session: Session, places: dict[str, Any], *judges: str) -> CheckJudgesConfig:
    from leadline.flows.check_judges import CheckJudgesConfig

    return CheckJudgesConfig(judges=judges, store=session.store, **places)


def _print_enrolment(enrolment: Enrolment) -> None:
    metrics = ", ".join(f"{metric.evaluator}.{metric.metric}" for metric in enrolment.metrics)
    replies = len(enrolment.replies.values[0]) if enrolment.replies.values else 0
    click.echo(
        f"Judge {clean(enrolment.name)} is enrolled: {count(len(enrolment.probes), 'probe')} of {metrics}, "
        f"{replies} replies each."
    )
    told = {"model": enrolment.replies.served_models, "fingerprint": enrolment.replies.fingerprints}
    for what, names in told.items():
        if names:
            click.echo(f"  The provider's {what}: {clean(', '.join(names))}")


def _print_standing(standing: JudgeStanding, name: str) -> None:
    click.echo(f"Judge {clean(name)} {clean(standing.in_words())}.")
    for sign in standing.signs:
        click.echo(f"  {sign.severity}: {clean(sign.text)}.")
    if standing.state == "changed":
        click.echo(f"  Rows are not judged in gated runs until: leadline judges accept {clean(name)}")
