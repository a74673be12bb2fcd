"""``leadline store gc``: what a store needs no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from leadline.evaluators.ground import in_bytes
from leadline.flows.command.output import print_json, print_table
from leadline.flows.command.session import Session, say, session_options

if TYPE_CHECKING:
    from leadline.plugins.ops.maintenance.garbage import GarbageItem

SHOWN: Final = 200
"""Lines that a table shows at most."""


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
    store = session.open_store()
    found = list(garbage.drop_garbage(store, wanted)) if yes else garbage.find_garbage(store, wanted)
    freed = sum(item.bytes for item in found)
    if as_json:
        print_json({"dropped": yes, "bytes": freed, "items": [asdict(item) for item in found]})
        return
    _print(found)
    if yes:
        say(f"Freed {in_bytes(freed)} in {store.location}.")
    elif found:
        say(f"{in_bytes(freed)} can be freed in {store.location}: repeat the command with --yes.")


def _print(found: Sequence[GarbageItem]) -> None:
    if not found:
        say("There is nothing to drop.")
        return
    lines = [(item.kind, item.name, in_bytes(item.bytes), item.why) for item in found[:SHOWN]]
    print_table(("what", "name", "size", "why"), lines, right=("size",))
    if len(found) > SHOWN:
        rest = Counter(item.kind for item in found[SHOWN:])
        say(f"And {', '.join(f'{count} of {kind}' for kind, count in rest.items())}.")
