"""Limits that outlive a process: a small file for each model of a server, with the calls that it took at once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

OLD_S: Final = 24 * 3600.0
"""Age from which a file says nothing: the quota may have changed, or the machine behind the address."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """Calls in flight that a server answered.

    Attributes:
        calls: How many.
        found: Whether it refused when there were more; else it may take more.
    """

    calls: int
    found: bool


class LimitFile:
    """The file of one model. Processes replace it whole, the last one wins.

    Args:
        folder: Where the files of all models are; made if need be.
        name: The server and the model, as they are told from others.
    """

    def __init__(self, folder: Path, name: tuple[object, ...]) -> None:
        self._path = folder / f"{hashlib.sha256(repr(name).encode()).hexdigest()[:16]}.json"

    def read(self) -> KnownLimit | None:
        """Return what is known; ``None`` where there is no file, or one that is old or damaged."""
        try:
            if time.time() - self._path.stat().st_mtime > OLD_S:
                return None
            held = json.loads(self._path.read_bytes())
            calls, found = held["calls"], held["found"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return KnownLimit(calls, found) if type(calls) is int and calls > 0 and type(found) is bool else None

    def write(self, known: KnownLimit) -> None:
        """Keep what is known; a folder that cannot be written costs the next process a second, and this one nothing."""
        partial = self._path.with_suffix(f".{token_hex(4)}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"calls": known.calls, "found": known.found}), encoding="utf-8")
            os.replace(partial, self._path)
        except OSError as error:
            _log.debug("%s cannot be written: %s", self._path, error)
            with suppress(OSError):
                partial.unlink(missing_ok=True)
