"""Deliveries that cannot become events: kept with the reason, so that somebody sees them and can send them again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import without_secrets
from leadline.tasks.ground.files import digest, state_folder, write_json

MOST: Final = 200
"""Deliveries that are kept; the oldest go."""

LONGEST: Final = 64 * 1024
ENDING: Final = ".refused"

_log = logging.getLogger("leadline.webhook")


@dataclass(frozen=True, slots=True)
class RefusedDelivery:
    """A delivery that was set aside.

    Attributes:
        when: When, as ISO 8601 in UTC.
        about: Model and version, as far as they are known.
        reason: Why.
        path: The file, whose ``payload`` can be sent once it is mended.
    """

    when: str
    about: str
    reason: str
    path: Path


def delivery_folder() -> Path:
    """Return the folder in which the webhook's deliveries wait."""
    return state_folder() / "webhook"


def set_aside(folder: Path, payload: Mapping[str, Any] | str, reason: str) -> None:
    """Keep a delivery with the reason; that this fails is only logged.

    Args:
        payload: The event's payload, or the text of a stored delivery that cannot be read.
        reason: Why it is no event.
    """
    content = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "reason": without_secrets(reason),
        "payload": payload if not isinstance(payload, str) else payload[:LONGEST],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(folder / f"{digest(content['payload'])}{ENDING}", content)
        for path in sorted(folder.glob(f"*{ENDING}"), key=_age)[:-MOST]:
            path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        _log.error("A delivery could not be set aside (%s): %s", error, reason)


def refusals(folder: Path, since: datetime) -> Iterator[RefusedDelivery]:
    """Yield what was set aside since a time, newest first.

    Args:
        since: The time.
    """
    for path in sorted(folder.glob(f"*{ENDING}"), key=_age, reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if datetime.fromisoformat(found["when"]) >= since:
                payload = found["payload"]
                known = payload if isinstance(payload, dict) else {}
                about = f"{known.get('model', '?')} {known.get('version', '')}".strip()
                yield RefusedDelivery(str(found["when"]), about, str(found["reason"]), path)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed in the meantime
        return 0.0
