"""The outbox: what is to be told to whom, on disk until it was sent, and remembered so that it is told once.

One file for each notice and recipient: ``.json`` while it waits, ``.sent`` afterwards, ``.failed`` if it was given up.
A process that is killed between a service's answer and the renaming sends that one again; otherwise each goes out once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from leadline.plugins.ops.notify.recipients import Notice, Recipient, together
from leadline.tasks.ground.files import write_json

FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 600.0
GIVE_UP_S: Final = 3 * 24 * 3600.0
"""How long what a service does not take is sent again."""

REMEMBERED_S: Final = 30 * 24 * 3600.0
"""How long it is known what was sent; longer than anything is looked back for."""

MOST: Final = 10_000
"""Files at most; what comes beyond that is logged, and not sent."""

SINGLY: Final = 3
"""More notices than that for one recipient at a time go out as one message."""

Send: TypeAlias = Callable[[Recipient, Notice], str]

_log = logging.getLogger("leadline.notify")


@dataclass(frozen=True, slots=True)
class _Waiting:
    path: Path
    notice: Notice
    tries: int
    due: float
    made: float


@dataclass(frozen=True, slots=True)
class Outbox:
    """Notices that wait and those that were sent, in a folder that one process works on.

    Attributes:
        folder: The folder; it is made.
    """

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put(self, recipient: Recipient, notice: Notice) -> bool:
        """Take a notice for a recipient, unless it was taken before; returns whether it is new."""
        path = self._path(recipient, notice)
        if self._is_known(path):
            return False
        if sum(1 for _ in self.folder.iterdir()) >= MOST:
            _log.error("Not told to %s, since the outbox is full: %s", recipient.name, notice.title)
            return False
        now = time.time()
        content = {"recipient": recipient.name, "notice": notice.to_json(), "tries": 0, "due": now, "made": now}
        write_json(path, content)
        return True

    def skip(self, recipient: Recipient, notice: Notice) -> None:
        """Remember a notice as if it had been sent."""
        path = self._path(recipient, notice)
        if not self._is_known(path):
            path.with_suffix(".sent").touch()

    def deliver(self, recipients: Sequence[Recipient], send: Send) -> int:
        """Send what is due, and return how many notices went out.

        Args:
            send: Sends a notice, and returns why it was not taken, or "".
        """
        now = time.time()
        waiting = self._waiting()
        sent = 0
        for recipient in recipients:
            due = [one for one in waiting.pop(recipient.name, []) if one.due <= now]
            groups = [due] if len(due) > SINGLY else [[one] for one in due]
            for group in filter(None, groups):
                refused = send(recipient, together([one.notice for one in group]))
                self._note(recipient, group, refused)
                if refused:
                    break  # the others wait for the next time
                sent += len(group)
        for orphan in (one for left in waiting.values() for one in left):  # their recipient is gone
            orphan.path.replace(orphan.path.with_suffix(".failed"))
        self._forget(now)
        return sent

    def __len__(self) -> int:
        """Return how many notices wait."""
        return sum(1 for _ in self.folder.glob("*.json"))

    def _note(self, recipient: Recipient, group: Iterable[_Waiting], refused: str) -> None:
        for one in group:
            if not refused:
                one.path.replace(one.path.with_suffix(".sent"))
                _log.info("told %s: %s", recipient.name, one.notice.title)
            elif time.time() - one.made > GIVE_UP_S:
                one.path.replace(one.path.with_suffix(".failed"))
                _log.error("%s is given up for %s: %s", one.notice.title, recipient.name, refused)
            else:
                pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(one.tries, 10))
                due = time.time() + pause
                content: dict[str, Any] = {"recipient": recipient.name, "notice": one.notice.to_json()}
                write_json(one.path, content | {"tries": one.tries + 1, "due": due, "made": one.made})
                _log.warning("%s was not taken (%s); again in %.0f s", recipient.name, refused, pause)

    def _waiting(self) -> dict[str, list[_Waiting]]:
        """Return what waits by recipient, the oldest first."""
        found: dict[str, list[_Waiting]] = {}
        for path in self.folder.glob("*.json"):
            try:
                read = json.loads(path.read_text(encoding="utf-8"))
                notice = Notice.from_json(read["notice"])
                one = _Waiting(path, notice, int(read["tries"]), float(read["due"]), float(read["made"]))
                found.setdefault(str(read["recipient"]), []).append(one)
            except (OSError, ValueError, KeyError, TypeError) as error:
                _log.error("%s cannot be read and is set aside: %s", path.name, error)
                path.replace(path.with_suffix(".failed"))
        for waiting in found.values():
            waiting.sort(key=lambda one: one.made)
        return found

    def _forget(self, now: float) -> None:
        for ending in ("*.sent", "*.failed"):
            for path in self.folder.glob(ending):
                with suppress(OSError):
                    if now - path.stat().st_mtime > REMEMBERED_S:
                        path.unlink()

    def _path(self, recipient: Recipient, notice: Notice) -> Path:
        name = hashlib.sha256(f"{recipient.name}\0{notice.key}".encode()).hexdigest()[:32]
        return self.folder / f"{name}.json"

    def _is_known(self, path: Path) -> bool:
        return any(path.with_suffix(ending).exists() for ending in (".json", ".sent", ".failed"))
