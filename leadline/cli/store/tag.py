"""``leadline store tag``: names for runs."""

from __future__ import annotations

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import moment, print_json, print_table
from leadline.flows.command.session import Session, say, session_options


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
    from leadline.tasks.runs.lookup import find_run
    from leadline.tasks.runs.tags import remove_tag, set_tag

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
    from leadline.tasks.runs.tags import all_tags

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
