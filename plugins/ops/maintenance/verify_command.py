"""``leadline store verify``: whether a store is as it was written."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click

from leadline.evaluators.ground import in_bytes
from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, say, session_options

DAMAGED: Final = 1


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

    store = session.open_store()
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
