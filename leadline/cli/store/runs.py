"""``leadline store runs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from leadline.flows.command.output import number, print_json, print_table
from leadline.flows.command.session import Session, say, session_options

SEVERITIES: Final = ("high", "medium", "low")


@click.command()
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the N youngest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def runs(session: Session, /, last: int | None, as_json: bool) -> None:
    """List the runs in the store, youngest first."""
    from leadline.tasks.runs.run_facts import summary
    from leadline.tasks.runs.signs_of_life import record_lost

    store = session.open_store()
    record_lost(store)
    found = [summary(run) for run in reversed(store.runs()[-last if last else None :])]
    if as_json:
        print_json([_plain(known) for known in found])
    elif found:
        print_table(
            ("run", "name", "status", "rows", "gate", "scored", "unscored", *SEVERITIES, "instrument", "seconds"),
            [_line(known) for known in found],
            right=("rows", "scored", "unscored", *SEVERITIES, "instrument", "seconds"),
        )
    else:
        say(f"No runs in {store.location}. Begin with: leadline evaluate DATASET")


def _plain(known: dict[str, Any]) -> dict[str, Any]:
    apart = {name: known["record"].get(name) for name in ("problems_by_fault", "time")}
    return {key: value for key, value in known.items() if key != "record"} | apart


def _line(known: dict[str, Any]) -> Sequence[object]:
    """Return a line of the table; a run that was not completed has no problems yet."""
    problems = known["record"].get("problems_by_fault")
    counts = (number(problems["model"][key] if problems else None) for key in SEVERITIES)
    instrument = number(sum(problems["instrument"].values()) if problems else None)
    seconds = known["seconds"]
    return (
        known["run"],
        known["name"],
        known["status"],
        number(known["rows"]),
        known["gate"] or "-",
        number(known["scored"]),
        number(known["unscored"]),
        *counts,
        instrument,
        "-" if seconds is None else f"{seconds:.1f}",
    )
