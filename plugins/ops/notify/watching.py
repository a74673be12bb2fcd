"""The watcher: looks at Prefect's server and the store, and tells recipients what went wrong.

It asks instead of waiting for events or automations, because asking survives restarts of either side: it knows until
when it has looked, and looks from there again. It needs no worker, so that it also tells of runs that nobody takes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
from prefect.client.orchestration import get_client

from leadline.evaluators.ground import LeadlineError
from leadline.flows.prefect.server_outage import not_waiting
from leadline.plugins.ops.notify.happenings import happened, lost
from leadline.plugins.ops.notify.notice import Notice
from leadline.plugins.ops.notify.outbox import Outbox, Send
from leadline.plugins.ops.notify.recipients import Recipient, send
from leadline.tasks.ground.files import replacing
from leadline.tasks.runs.run_index import RunIndex
from leadline.tasks.store.store import Store

OVERLAP: Final = timedelta(minutes=20)
"""How far each look reaches behind the last one: events may be stored late."""

LONGEST_LOOK: Final = timedelta(days=7)
"""How far the first look after a long pause reaches back; Prefect keeps events as long."""

_log = logging.getLogger("leadline.notify")


@dataclass
class Watcher:
    """A watch over runs for some recipients.

    Attributes:
        folder: Its memory.
        recipients: Everybody who is told.
        store: The store whose lost runs are told.
        prefect: Address of Prefect's UI, for links.
        send: Sends a notice.
    """

    folder: Path
    recipients: Sequence[Recipient]
    store: Store
    prefect: str = ""
    send: Send = send
    _outbox: Outbox = field(init=False)
    _index: RunIndex = field(init=False)
    _away: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._outbox = Outbox(self.folder)
        self._index = RunIndex(self.store)

    def look(self) -> int:
        """Look once, send what is due, and return how many notices went out."""
        now = datetime.now(UTC)
        known = self._since()
        since = max(known or now, now - LONGEST_LOOK)
        reached = self._ask_prefect(since, now)
        self._look_at_store(now, first=known is None)
        if known is None:
            self._remember(now)
        elif reached:
            self._remember(max(known, now - OVERLAP))
        return self._outbox.deliver(self.recipients, self.send)

    def watch(self, every: float, ended: threading.Event) -> None:
        """Look again and again.

        Args:
            every: Seconds between two looks.
            ended: Ends it.
        """
        while not ended.is_set():
            self.look()
            ended.wait(every)

    def _ask_prefect(self, since: datetime, now: datetime) -> bool:
        """Take what Prefect's server knows; returns whether it answered."""
        try:
            with not_waiting(), get_client(sync_client=True) as client:
                self._take(happened(client, since, now, self.prefect))
        except (httpx.HTTPError, OSError, RuntimeError) as error:
            if not self._away:
                _log.warning("Prefect's server does not answer (%s); it is asked again.", type(error).__name__)
            self._away = True
            return False
        if self._away:
            _log.info("Prefect's server answers again.")
        self._away = False
        return True

    def _look_at_store(self, now: datetime, *, first: bool) -> None:
        try:
            for notice in lost(self._index, now - LONGEST_LOOK):
                for recipient in self._who(notice):
                    if first:  # what was lost before somebody asked to be told is history
                        self._outbox.skip(recipient, notice)
                    else:
                        self._outbox.put(recipient, notice)
        except (LeadlineError, OSError) as error:
            _log.warning("The store cannot be read: %s", error)

    def _take(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            for recipient in self._who(notice):
                self._outbox.put(recipient, notice)

    def _who(self, notice: Notice) -> list[Recipient]:
        return [recipient for recipient in self.recipients if notice.kind in recipient.kinds]

    def _since(self) -> datetime | None:
        """Return from when to look, or ``None`` at the very first look."""
        try:
            return datetime.fromisoformat((self.folder / "since").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _remember(self, since: datetime) -> None:
        with replacing(self.folder / "since") as draft:
            draft.write_text(since.isoformat(), encoding="ascii")


def prefect_ui(api: str) -> str:
    """Return the address of Prefect's UI for links: the configured one, else that of the server's own.

    Args:
        api: Address of the API.
    """
    return (os.environ.get("PREFECT_UI_URL") or api.rstrip("/").removesuffix("/api")).rstrip("/")
