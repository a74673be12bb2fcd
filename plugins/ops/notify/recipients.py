"""Recipients and their notices: ``[[notify]]`` of ``leadline.toml``, and what happened to a run, sent by Apprise.

Addresses come from the environment::

    [[notify]]
    name = "team"
    url_env = "LEADLINE_NOTIFY_TEAM"      # holds an address in Apprise's form: slack://…, workflows://…, mailtos://…
    on = ["fail", "crashed", "late"]      # all, unless it says so
"""

from __future__ import annotations

import io
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    UsageError,
    first_refusal,
    remember_variable,
    settings_document,
    visible,
    without_secrets,
)

if TYPE_CHECKING:
    from apprise import NotifyBase


LONGEST: Final = 600
"""Characters of one line."""

MOST_LINES: Final = 12
TOGETHER: Final = 20
"""Notices that one message lists."""

_CALL: Final = re.compile(r"[@\uff20](?=everyone|here|channel|all\b|room\b)|(?<!\w)[@\uff20](?=\w)", re.IGNORECASE)
_MARKUP: Final = re.compile(r"<(?=[!@#]|[a-z]+:)|\](?=\()", re.IGNORECASE)
"""What begins a call in Slack and Discord (``<!channel>``, ``<@U1>``), or hides an address behind another text."""


class Kind(StrEnum):
    """The things that somebody may be told of."""

    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    LATE = "late"
    LOST = "lost"
    CHANGED = "changed"
    TEST = "test"


_TITLES: Final = {
    Kind.FAIL: "{} fails its gate",
    Kind.INCONCLUSIVE: "{}: whether it passes its gate cannot be told",
    Kind.FAILED: "{} failed, so its gate says nothing",
    Kind.CRASHED: "{} crashed, so its gate says nothing",
    Kind.CANCELLED: "{} was cancelled, so its gate says nothing",
    Kind.LATE: "{} is due and has not started",
    Kind.LOST: "{} was lost with its process, so its gate says nothing",
    Kind.CHANGED: "The judge {} is not the one that was enrolled any more",
    Kind.TEST: "{}",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened.

    Attributes:
        key: The same for the same thing, however often it is seen.
        lines: Sentences that say more.
        link: Where to read on, or "".
    """

    key: str
    kind: Kind
    about: str
    lines: tuple[str, ...] = ()
    link: str = ""

    @property
    def title(self) -> str:
        """The whole in one line."""
        return plain(_TITLES[self.kind].format(plain(self.about)[:120]))

    @property
    def body(self) -> str:
        """The rest as plain text."""
        lines = [plain(line) for line in self.lines if line.strip()][:MOST_LINES]
        return "\n".join([*lines, *([self.link] if self.link else [])]) or self.title

    def to_json(self) -> dict[str, Any]:
        """Return the notice as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Notice:
        """Read what :meth:`to_json` returned."""
        return cls(
            str(found["key"]),
            Kind(found["kind"]),
            str(found["about"]),
            tuple(str(line) for line in found["lines"]),
            str(found["link"]),
        )


def together(notices: Sequence[Notice]) -> Notice:
    """Return one notice for several, so that a bad night is one message."""
    if len(notices) == 1:
        return notices[0]
    lines = [f"- {notice.title}" + (f": {notice.link}" if notice.link else "") for notice in notices[: TOGETHER - 1]]
    left = len(notices) - len(lines)
    more = [f"and {left} more"] if left else []
    return _Several("", Kind.TEST, f"{len(notices)} runs need a look: {notices[0].title}, and others", (*lines, *more))


class _Several(Notice):
    """Several notices in one message."""

    @property
    def body(self) -> str:
        """All of them, a line each."""
        return "\n".join(plain(line) for line in self.lines)


def plain(text: str) -> str:
    """Return a text on one line that drives no terminal, calls nobody in a chat and hides no address in a link."""
    line = visible(" ".join(text.split()))
    line = _MARKUP.sub("\\g<0>\N{ZERO WIDTH SPACE}", _CALL.sub("@\N{ZERO WIDTH SPACE}", line))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


TABLE: Final = "notify"
EVERYTHING: Final = tuple(kind for kind in Kind if kind is not Kind.TEST)
DEADLINE_S: Final = 60.0
"""Longest time for one message; Apprise's own limits are 4 s for a connection and for an answer."""

_PARTS: Final = re.compile(r"[:/@?&=,\s]+")
_SHORTEST: Final = 4


class RecipientTable(BaseModel):
    """A table ``[[notify]]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,63}$", description="Its name, for messages about it.")
    url_env: str = Field(pattern=r"^[A-Za-z_][0-9A-Za-z_]*$", description="Environment variable with the address.")
    on: tuple[Kind, ...] = Field(EVERYTHING, min_length=1, description="What is told.")

    @field_validator("url_env")
    @classmethod
    def _remember_variable(cls, value: str) -> str:
        remember_variable(value)
        return value


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody who is told.

    Attributes:
        url: Its address in Apprise's form, a secret.
    """

    name: str
    url: str = field(repr=False)
    kinds: frozenset[Kind] = frozenset(EVERYTHING)


def read_tables(file: Path | None = None) -> tuple[RecipientTable, ...]:
    """Read the tables ``[[notify]]`` of a configuration file, by default of the one that is here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    document, path = settings_document(file), file or FILE
    tables = document.get(TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(
            f"{path}: recipients are tables.",
            hint='Write: [[notify]] and name = "…", url_env = "…" below.',
            code=ErrorCode.CONFIG_CONTENT,
        )
    found = []
    for number, table in enumerate(tables, 1):
        where = f"{path}, [[notify]] {number}"
        if "url" in table:
            raise UsageError(
                f"{where}: an address does not belong into a file, since it holds a key.",
                hint="Put it into an environment variable, and name that with url_env.",
                code=ErrorCode.CONFIG_SECRET,
            )
        try:
            found.append(RecipientTable.model_validate(table))
        except ValidationError as error:
            raise UsageError(
                f"{where}: {first_refusal(error, RecipientTable)}.", code=ErrorCode.CONFIG_CONTENT
            ) from None
    twice = {one.name for one in found if sum(other.name == one.name for other in found) > 1}
    if twice:
        raise UsageError(
            f"{path}: {len(twice)} names of [[notify]] stand there twice, the first: {min(twice)}.",
            hint="Give each recipient a name of its own.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return tuple(found)


def find_recipients(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> tuple[Recipient, ...]:
    """Return the recipients of a file with their addresses.

    Args:
        file: The configuration file; by default the one that is here, if there is one.

    Raises:
        UsageError: The file is broken, a variable is not set, or what it holds is no address.
    """
    found = []
    for table in read_tables(file):
        url = environment.get(table.url_env, "").strip()
        if not url:
            raise UsageError(
                f"{file or FILE}, [[notify]] {table.name}: the environment variable {table.url_env} is not set.",
                hint="It holds an address in Apprise's form, such as slack://… or mailtos://….",
                code=ErrorCode.CONFIG_VARIABLE,
            )
        found.append(Recipient(table.name, url, frozenset(table.on)))
    return tuple(found)


def service_of(recipient: Recipient) -> str:
    """Return what kind of service a recipient's address is of, such as ``Slack``.

    Raises:
        UsageError: Apprise does not understand the address.
    """
    return str(_instance(recipient).service_name)


def send(recipient: Recipient, notice: Notice) -> str:
    """Send a notice; returns "" if it was taken, else why not, without any part of the address."""
    reasons: list[str] = []

    def work() -> None:
        try:
            reasons.append(_send(recipient, notice))
        except Exception as error:  # whatever a service's module may raise
            reasons.append(_without(recipient, f"{type(error).__name__}: {error}"))

    worker = threading.Thread(target=work, name="leadline-notify", daemon=True)
    worker.start()
    worker.join(DEADLINE_S)
    return reasons[0] if reasons else f"No answer within {DEADLINE_S:.0f} s."


def _send(recipient: Recipient, notice: Notice) -> str:
    from apprise import Apprise, LogCapture, NotifyFormat, NotifyType

    said = io.StringIO()
    with LogCapture(level=logging.WARNING, fmt="%(message)s") as captured:  # type: ignore[no-untyped-call]
        service = Apprise()
        service.add(_instance(recipient))
        done = service.notify(
            body=notice.body, title=notice.title, notify_type=NotifyType.WARNING, body_format=NotifyFormat.TEXT
        )
        said.write(captured.getvalue() if captured else "")
    if done:
        return ""
    lines = [line for line in said.getvalue().splitlines() if line.strip()]
    return _without(recipient, lines[0] if lines else "It was not taken.")


def _instance(recipient: Recipient) -> NotifyBase:
    from apprise import Apprise, AppriseAsset

    asset = AppriseAsset(async_mode=False, app_id="Leadline", app_desc="Leadline", app_url="")
    found = Apprise.instantiate(recipient.url, asset=asset, suppress_exceptions=True)
    if found is None:
        raise UsageError(
            f"[[notify]] {recipient.name}: its variable holds no address that Apprise understands.",
            hint="See https://github.com/caronc/apprise for the form of each service.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return found


def _without(recipient: Recipient, text: str) -> str:
    """Return a text without any part of an address."""
    for part in sorted(_PARTS.split(recipient.url), key=len, reverse=True):
        if len(part) >= _SHORTEST:
            text = text.replace(part, "…")
    return without_secrets(text)
