"""``leadline store runs`` and ``tag``: the runs of a store, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import moment, number, print_json, print_table
from leadline.flows.command.session import Session, say, session_options
from leadline.tasks.runs.heartbeats import record_lost
from leadline.tasks.runs.lookup import all_tags, find_run, remove_tag, set_tag
from leadline.tasks.runs.run_facts import summary

SEVERITIES: Final = ("high", "medium", "low")


@click.command()
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the N youngest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def runs(session: Session, /, last: int | None, as_json: bool) -> None:
    """List the runs in the store, youngest first."""
    store = session.open_store()
    record_lost(store)
    chosen = store.runs()[-last if last else None :]
    if not chosen and not as_json:
        say(f"No runs in {store.location}. Begin with: leadline evaluate DATASET")
        return
    found = [summary(run) for run in reversed(chosen)]
    if as_json:
        print_json([_plain(known) for known in found])
    else:
        print_table(
            ("run", "name", "status", "rows", "gate", "scored", "unscored", *SEVERITIES, "instrument", "seconds"),
            [_line(known) for known in found],
            right=("rows", "scored", "unscored", *SEVERITIES, "instrument", "seconds"),
        )


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
        known["name"] if not known["rescored"] else f"{known['name']} (rescores {known['rescored']})",
        known["status"],
        number(known["rows"]),
        known["gate"] or "-",
        number(known["scored"]),
        number(known["unscored"]),
        *counts,
        instrument,
        "-" if seconds is None else f"{seconds:.1f}",
    )


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@click.argument("tag_name", metavar="[NAME]", required=False)
@click.option("--remove", is_flag=True, help="Take the tag from the run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: all tags, or what became of this one.")
@session_options
@click.pass_obj
def tag(session: Session, /, name: str | None, tag_name: str | None, remove: bool, as_json: bool) -> None:
    """Name a run, for example as the baseline.

    Without arguments it lists all names. RUN gets the tag NAME, which the run that had it loses. A tagged run can be
    named as tag:NAME wherever a run is asked for.
    """
    store = session.open_store()
    if name is None:
        _list_tags(session, as_json=as_json)
        return
    if tag_name is None:
        raise UsageError(
            "Name the run and the tag.", hint="Write: leadline store tag RUN NAME", code=ErrorCode.COMPARE_SIDES
        )
    run = find_run(store, name)
    if remove:
        remove_tag(run, tag_name)
        say(f"Run {run.id} no longer has the tag {tag_name}.")
        if as_json:
            print_json({"tag": tag_name, "run": None, "before": run.id})
        return
    before = set_tag(store, run, tag_name)
    if as_json:
        print_json({"tag": tag_name, "run": run.id, "before": before.id if before else None})
    say(f"Run {run.id} is {tag_name} now" + (f"; {before.id} was." if before else "."))


def _list_tags(session: Session, *, as_json: bool) -> None:
    lines = [
        {"tag": name, "run": run.id, "name": run.read().get("name") or "", "since": when}
        for name, (run, when) in all_tags(session.open_store()).items()
    ]
    if as_json:
        print_json(lines)
    elif lines:
        rows = [(line["tag"], line["run"], line["name"], moment(line["since"])) for line in lines]
        print_table(("tag", "run", "name", "since"), rows)
    else:
        say("No run has a tag. Give one: leadline store tag RUN NAME")
