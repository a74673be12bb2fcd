"""The audit log: what people did on the pages and who was refused, apart from the server's own log.

Each server appends to files of its own, ``audit/<month>-<server>-<part>.jsonl`` in the store: one line of JSON each
time, which begins with the time, so that lines sort as they are.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from leadline.evaluators.ground import LeadlineError, masked
from leadline.tasks.store.store import Store

KEPT: Final = timedelta(days=400)
"""Months that ended longer ago are removed when a part begins."""

PART: Final = 128 * 1024
"""Bytes after which the next part begins: in a bucket a part is uploaded as a whole."""

LONGEST: Final = 300
"""Characters of a value; what people wrote is no part of the log, only what it was about."""

REFUSALS: Final = 1000
"""Sign-ins refused in a day that are listed, so that somebody who tries all names does not fill the store."""

SHARE_S: Final = 30.0

_log = logging.getLogger("leadline.ui")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that somebody did.

    Attributes:
        at: When, in UTC.
        person: Their name, "" where everybody shares a token.
        address: Where the request came from; a proxy's address where there is one.
        did: What it was.
        about: What it concerned, such as a run, a row or a command.
    """

    at: str
    person: str
    address: str
    did: str
    about: Mapping[str, Any]


@dataclass
class AuditLog:
    """The audit log of a store.

    Attributes:
        server: Part of the names of this server's files, drawn anew: no other has it, on this host or elsewhere.
    """

    store: Store
    server: str = field(default_factory=lambda: secrets.token_hex(4))
    _refused: dict[str, int] = field(default_factory=dict)
    _shares: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    """Uploads one after the other, so that nobody waits for a bucket."""

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.store.root / "audit"

    def write(
        self, did: str, *, person: str = "", address: str = "", about: Mapping[str, object] | None = None
    ) -> None:
        """Append an entry; that it cannot be written is said in the server's log, and stops nobody.

        Args:
            did: What was done, in the past tense.
            person: Who did it.
            address: Where the request came from.
            about: What it concerned; secrets that this process knows are masked.
        """
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        shown = {name: _shortened(value) for name, value in (about or {}).items() if value not in (None, "")}
        entry = {"at": at, "person": masked(person), "address": address, "did": did, "about": shown}
        try:
            path = self._part(at[:7])
            with path.open("ab") as file:
                file.write(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError as error:
            _log.error("The audit log cannot be written: %s: %s", error, did)
            return
        if self.store.remote:
            self._shares.submit(self._share, path)

    def refuse(self, request: Request, name: str = "", why: str = "") -> None:
        """Append that somebody was not let in.

        Args:
            name: Who they said they are, where there is such a person; other texts may be passwords.
            why: The reason, if it is not a wrong password or token.
        """
        today = datetime.now(UTC).date().isoformat()
        count = self._refused[today] = self._refused.get(today, 0) + 1
        if count <= REFUSALS:
            last = {"note": "More of this day are not listed."} if count == REFUSALS else {}
            self.write("sign-in refused", person=name, address=address_of(request), about={"why": why} | last)
        self._refused = {today: count}

    def entries(self, first: int = 0, number: int = 50) -> tuple[list[AuditEntry], int]:
        """Return entries, the newest first, with the number of all; of a bucket that does not answer, those here.

        Args:
            first: Entries that are left out before them.
            number: The most that are returned.
        """
        if self.store.remote:
            self._shares.submit(self._gather).result(timeout=SHARE_S)
        lines = [line for path in self.folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
        lines.sort(reverse=True)
        return list(_read(lines[first : first + number])), len(lines)

    def _part(self, month: str) -> Path:
        parts = sorted(self.folder.glob(f"{month}-{self.server}-*.jsonl"))
        if parts and parts[-1].stat().st_size < PART:
            return parts[-1]
        self.folder.mkdir(parents=True, exist_ok=True)
        oldest = (datetime.now(UTC) - KEPT).isoformat()[:7]
        for path in self.folder.glob("*.jsonl"):
            if path.name[:7] < oldest:
                self._shares.submit(self.store.discard, path)
        return self.folder / f"{month}-{self.server}-{len(parts):04}.jsonl"

    def _share(self, path: Path) -> None:
        try:
            self.store.push([path])
        except LeadlineError as error:
            _log.error("The audit log cannot be brought to the bucket: %s", error)

    def _gather(self) -> None:
        """Bring the files of other servers here; this one's are ahead of the bucket's."""
        try:
            self.store.sync([self.folder], own=f"*-{self.server}-*")
        except LeadlineError as error:
            _log.error("The audit log cannot be brought from the bucket: %s", error)


def address_of(request: Request) -> str:
    """Return the address that a request came from."""
    return request.client.host if request.client else ""


def _shortened(value: object) -> Any:
    text = masked(str(value))
    return value if isinstance(value, int | float) else text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _read(lines: list[bytes]) -> Iterator[AuditEntry]:
    for line in lines:
        try:
            entry = json.loads(line)
            at, person, address, did = (str(entry[name]) for name in ("at", "person", "address", "did"))
            yield AuditEntry(at, person, address, did, dict(entry["about"]))
        except (ValueError, KeyError, TypeError):
            yield AuditEntry("", "", "", "a damaged line", {"line": line[:LONGEST].decode("utf-8", "replace")})
