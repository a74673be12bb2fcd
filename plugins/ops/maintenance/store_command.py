"""``leadline store info`` and ``migrate``: what a store has in it, and its format."""

from __future__ import annotations

import click

from leadline.evaluators.ground import in_bytes
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, say, session_options
from leadline.plugins.ops.maintenance.contents import Contents
from leadline.tasks.store.store import FORMAT, SCHEMA, format_of


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def info(session: Session, /, as_json: bool) -> None:
    """Say where the store is, its format, and what takes room in it."""
    opened = session.open_store()
    sizes: dict[str, int] = {}
    for name, listed in Contents(opened).files().items():
        part = name.partition("/")[0]
        sizes[part] = sizes.get(part, 0) + listed.size
    number = format_of(opened.root)
    facts = {"location": opened.location, "format": number, "current_format": FORMAT, "run_schema": SCHEMA}
    if as_json:
        print_json(facts | {"bytes": sizes})
        return
    click.echo(clean(f"Store {opened.location}"))
    click.echo(f"Format {number}" + ("" if number == FORMAT else f", today's is {FORMAT}: leadline store migrate"))
    click.echo(f"Runs of schema {SCHEMA}")
    for part, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        click.echo(f"{in_bytes(size):>12}  {clean(part)}")


@click.command()
@session_options
@click.pass_obj
def migrate(session: Session, /) -> int:
    """Bring a store of an earlier format up to date.

    Scores, keys and results stay as they are. Killed, it goes on when it is called again.
    """
    from leadline.plugins.ops.maintenance import integrity

    opened = session.open_store()
    done = damaged = 0
    for name, fault in integrity.migrate(opened):
        done += not fault
        damaged += bool(fault)
        if fault:
            click.echo(clean(f"{name}: {fault}"))
    say(f"{done:,} files got their digests in {opened.location}." + _of_damaged(damaged))
    return 0


def _of_damaged(count: int) -> str:
    return f" {count:,} are damaged and stay as they are: leadline store verify" if count else ""
