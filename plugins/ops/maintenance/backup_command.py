"""``leadline store backup`` and ``leadline store restore``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from leadline.evaluators.ground import ErrorCode, UsageError, from_home, in_bytes
from leadline.flows.command.session import Session, say, session_options
from leadline.tasks.store.store import DEFAULT_STORE, STORE_VARIABLE


@click.command()
@click.argument("target", metavar="FILE.tar|FOLDER", type=click.Path(path_type=Path))
@session_options
@click.pass_obj
def backup(session: Session, /, target: Path) -> None:
    """Copy the store and its ledger while runs go on.

    The copy is a tar file, or a folder that does not exist yet, with the digests of all files.
    """
    from leadline.plugins.ops.maintenance.backup import back_up

    store = session.open_store()
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
