"""``leadline doctor``: say what is missing or broken."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, session_options

if TYPE_CHECKING:
    from leadline.cli.diagnosis.diagnosis import Examination

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
    from leadline.cli.diagnosis.diagnosis import State, diagnose

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
    from leadline.cli.diagnosis import machine, services
    from leadline.cli.diagnosis import settings_and_store as settings_file

    named = store or os.environ.get("LEADLINE_STORE") or ".leadline"
    folder = Path() if "://" in named else Path(named).expanduser()
    return [
        ("python", machine.examine_python),
        ("extras", machine.examine_extras),
        ("weights", machine.examine_weights),
        ("leadline.toml", settings_file.examine_settings),
        ("judge", partial(services.examine_judges, ask=ask)),
        ("server", services.examine_server),
        ("store", partial(settings_file.examine_store, store)),
        ("disk", partial(machine.examine_disk, folder)),
        ("clock", partial(machine.examine_clock, folder)),
        ("limits", machine.examine_limits),
    ]
