"""``leadline store info``, ``migrate``, ``verify``, ``gc``, ``backup`` and ``restore``: what keeps a store in order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError, from_home, in_bytes
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import Session, say, session_options
from leadline.plugins.ops.maintenance.contents import Contents
from leadline.tasks.store.store import DEFAULT_STORE, FORMAT, SCHEMA, STORE_VARIABLE, format_of

if TYPE_CHECKING:
    from leadline.plugins.ops.maintenance.garbage import GarbageItem

DAMAGED: Final = 1
"""Exit code where damage is left."""

SHOWN: Final = 200
"""Lines that a table shows at most."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def info(session: Session, /, as_json: bool) -> None:
    """Say where the store is, its format, and what takes room in it."""
    opened = session.open_store(existing=True)
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

    opened = session.open_store(existing=True)
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


@click.command()
@click.option("--repair", is_flag=True, help="Set damaged segments, datasets and certificates aside, to be made again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def verify(session: Session, /, repair: bool, as_json: bool) -> int:
    """Check the digests of all files, and the ledger.

    Each damaged file is a line: what is wrong with it and what to do. The exit code is 1 if damage is left. It may run
    beside evaluations.
    """
    from leadline.plugins.ops.maintenance.integrity import CheckedStore, check_store

    store = session.open_store(existing=True)
    checked = CheckedStore()
    found = []
    for damage in check_store(store, checked, repair=repair):
        found.append(damage)
        if not as_json:
            done = "Set aside." if damage.mended else damage.advice
            click.echo(clean(f"{damage.name}: {damage.fault.rstrip('.')}. {done}"))
    left = [damage for damage in found if not damage.mended]
    if as_json:
        print_json({"checked": asdict(checked), "damaged": [asdict(damage) for damage in found]})
    else:
        say(f"Checked {checked.files:,} files, {in_bytes(checked.bytes)}: {len(found) or 'none'} damaged.")
        if checked.without_digest:
            say(f"{checked.without_digest:,} have no digest, as an earlier version wrote them: leadline store migrate")
        if checked.lost_calls:
            say(f"{checked.lost_calls:,} calls were lost with their process: leadline judges calls --failed")
    return DAMAGED if left else 0


@click.command()
@click.option("--keep-last", type=click.IntRange(0), metavar="N", help="Keep the N youngest runs of each dataset.")
@click.option("--older-than", metavar="AGE", help="Drop only results of runs older than this: 12h, 30d, 8w.")
@click.option(
    "--keep-tag",
    "keep_tags",
    multiple=True,
    metavar="TAG",
    help="Keep runs with this tag, or one that fits a pattern such as 'release-*'.  [default: with any tag]",
)
@click.option(
    "--scores-older-than",
    metavar="AGE",
    help="Drop scores and embeddings, too, that no run with results uses and nobody used for so long.",
)
@click.option("--yes", is_flag=True, help="Drop it; without this it is only listed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def gc(
    session: Session,
    /,
    keep_last: int | None,
    older_than: str | None,
    keep_tags: tuple[str, ...],
    scores_older_than: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop old results and what killed processes left.

    Without --yes it is only listed. Scores, calls and the records of runs are kept. What is not given is taken from
    [retention] of leadline.toml; where neither says which runs are old, all keep their results. It may run beside
    evaluations.
    """
    from leadline.plugins.ops.maintenance import garbage, retention

    wanted = retention.load_retention(keep_last, older_than, keep_tags, scores_older_than)
    store = session.open_store(existing=True)
    found = list(garbage.drop_garbage(store, wanted)) if yes else garbage.find_garbage(store, wanted)
    freed = sum(item.bytes for item in found)
    if as_json:
        print_json({"dropped": yes, "bytes": freed, "items": [asdict(item) for item in found]})
        return
    _print_garbage(found)
    if yes:
        say(f"Freed {in_bytes(freed)} in {store.location}.")
    elif found:
        say(f"{in_bytes(freed)} can be freed in {store.location}: repeat the command with --yes.")


def _print_garbage(found: Sequence[GarbageItem]) -> None:
    if not found:
        say("There is nothing to drop.")
        return
    lines = [(item.kind, item.name, in_bytes(item.bytes), item.why) for item in found[:SHOWN]]
    print_table(("what", "name", "size", "why"), lines, right=("size",))
    if len(found) > SHOWN:
        rest = Counter(item.kind for item in found[SHOWN:])
        say(f"And {', '.join(f'{count} of {kind}' for kind, count in rest.items())}.")


@click.command()
@click.argument("target", metavar="FILE.tar|FOLDER", type=click.Path(path_type=Path))
@session_options
@click.pass_obj
def backup(session: Session, /, target: Path) -> None:
    """Copy the store and its ledger while runs go on.

    The copy is a tar file, or a folder that does not exist yet, with the digests of all files.
    """
    from leadline.plugins.ops.maintenance.backup import back_up

    store = session.open_store(existing=True)
    made = back_up(store, target.absolute())
    say(f"Copied {made.files:,} files, {in_bytes(made.bytes)}, to {target}.")
    if made.left_out:
        runs = ", ".join(made.left_out)
        say(f"Left out, since they are in work or damaged: {runs}. The scores that they have are in the copy.")
    if not made.ledger:
        say("Warning: the ledger is in PostgreSQL and not in the copy. Copy it: pg_dump --schema=leadline")


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@session_options
@click.pass_obj
def restore(session: Session, /, source: Path) -> None:
    """Make a store of a backup.

    The store (--store) is a folder that does not exist or is empty. It appears when all digests are right.
    """
    from leadline.plugins.ops.maintenance import backup as backups

    where = session.store or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    if "://" in where:
        raise UsageError(
            "A backup is restored into a folder.",
            hint="Give --store FOLDER, and copy its files to the bucket.",
            code=ErrorCode.STORE_LOCATION,
        )
    root = from_home(where).absolute()
    made = backups.restore(source.absolute(), root)
    say(f"Restored {made.files:,} files, {in_bytes(made.bytes)}, to {root}.")
