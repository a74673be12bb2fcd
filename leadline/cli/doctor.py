"""``leadline doctor``: say what is missing or broken."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import click

from leadline.cli import examinations
from leadline.cli.examinations import Examination, State, diagnose
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, session_options

BROKEN: Final = 1


@click.command()
@click.option("--ask", is_flag=True, help="Ask the default judge one short question, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def doctor(session: Session, /, ask: bool, as_json: bool) -> int:
    """Say what is missing or broken on this machine, and what to do.

    Looks at Python, optional packages, weights, judges and their keys (whether they are set, never what they are), the
    Prefect server, the store, disk, clock, limits and leadline.toml. Nothing is changed, and nobody is asked without
    --ask. Leaves with 1 if something is broken; what is only missing does not count.
    """
    found = list(diagnose(_examinations(session.store, ask=ask)))
    if as_json:
        print_json([asdict(each) | {"state": each.state.value} for each in found])
    else:
        widest = max(len(each.part) for each in found)
        for each in found:
            advice = f". {each.advice}" if each.advice else ""
            click.echo(f"{each.state:<7}  {clean(each.part):<{widest}}  {clean(each.found)}{clean(advice)}")
        tally = ", ".join(f"{sum(each.state is state for each in found)} {state}" for state in State)
        click.echo(f"\n{tally}.")
    return BROKEN if any(each.state is State.BROKEN for each in found) else 0


def _examinations(store: str | None, *, ask: bool) -> list[tuple[str, Examination]]:
    named = store or os.environ.get("LEADLINE_STORE") or ".leadline"
    folder = Path() if "://" in named else Path(named).expanduser()
    return [
        ("python", examinations.examine_python),
        ("extras", examinations.examine_extras),
        ("weights", examinations.examine_weights),
        ("leadline.toml", examinations.examine_settings),
        ("judge", partial(examinations.examine_judges, ask=ask)),
        ("server", examinations.examine_server),
        ("store", partial(examinations.examine_store, store)),
        ("disk", partial(examinations.examine_disk, folder)),
        ("clock", partial(examinations.examine_clock, folder)),
        ("limits", examinations.examine_limits),
    ]
