"""The format of a store: a number in ``store.json``, raised with every change of what lies where and how.

1. Stores without ``store.json``: segments and datasets may lack digests.
2. Every segment carries its digest, every dataset's manifest has those of its files.

A store of an earlier format is read and written as it is; ``leadline store migrate`` brings it up to date. One of a
later format is refused.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.files import write_json

if TYPE_CHECKING:
    from leadline.tasks.store.remote import Remote

FORMAT: Final = 2
STORE_FILE: Final = "store.json"
WITHOUT_FILE: Final = 1
"""The format of a store that does not say it."""

_known: Final[set[Path]] = set()
"""Working copies whose bucket was asked by this process."""


def settle_format(root: Path, remote: Remote | None) -> None:
    """Give a new store its format, and refuse one of a later format.

    Args:
        root: The store's folder.
        remote: The bucket behind it, if there is one.

    Raises:
        StoreError: A later version of Leadline made it.
    """
    path = root / STORE_FILE
    if remote and root not in _known:
        remote.fetch([path])
        _known.add(root)
        is_new = not path.exists() and not remote.bucket.folders("")
    else:
        is_new = remote is None and not any(os.scandir(root))
    if is_new:
        with suppress(OSError, StoreError):  # it cannot be written; whoever writes more will say so
            write_format(root, remote)
    refuse_later(format_of(root), str(root))


def write_format(root: Path, remote: Remote | None) -> None:
    """Write that a store has today's format.

    Args:
        root: The store's folder.
        remote: The bucket behind it, if there is one.
    """
    write_json(root / STORE_FILE, {"format": FORMAT, "since": datetime.now(UTC).isoformat(timespec="seconds")})
    if remote:
        remote.push([root / STORE_FILE])


def format_of(root: Path) -> int:
    """Return the format of a store by its folder.

    Raises:
        StoreError: The file that says it cannot be read.
    """
    path = root / STORE_FILE
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["format"])
    except FileNotFoundError:
        return WITHOUT_FILE
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path} does not say the format of the store.",
            hint=f'Restore it, or write {{"format": {WITHOUT_FILE}}} there and run: leadline store migrate',
            code=ErrorCode.STORE_FORMAT,
        ) from error


def refuse_later(number: int, where: str) -> None:
    """Refuse a format that this version does not know.

    Args:
        number: The format.
        where: The store, for the message.

    Raises:
        StoreError: It is a later one.
    """
    if number > FORMAT:
        raise StoreError(
            f"The store {where} has format {number}; this version of Leadline knows {FORMAT} and earlier ones.",
            hint="Update Leadline.",
            code=ErrorCode.STORE_FORMAT,
        )
