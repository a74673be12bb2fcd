"""Notices: what happened to a run, in sentences, with a link."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from leadline.evaluators.ground import visible

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
        kind: What happened.
        about: Name of the run.
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
