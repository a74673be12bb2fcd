"""Sending a notice to a recipient by Apprise, which knows Slack, Teams, mail, webhooks and some hundred others."""

from __future__ import annotations

import io
import logging
import re
import threading
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.redaction import without_secrets
from leadline.plugins.ops.notify.notice import Notice
from leadline.plugins.ops.notify.recipients import Recipient

if TYPE_CHECKING:
    from apprise import NotifyBase

DEADLINE_S: Final = 60.0
"""Longest time for one message; Apprise's own limits are 4 s for a connection and for an answer."""

_PARTS: Final = re.compile(r"[:/@?&=,\s]+")
_SHORTEST: Final = 4


def service_of(recipient: Recipient) -> str:
    """Return what kind of service a recipient's address is of, such as ``Slack``.

    Raises:
        UsageError: Apprise does not understand the address.
    """
    return str(_instance(recipient).service_name)


def send(recipient: Recipient, notice: Notice) -> str:
    """Send a notice; returns "" if it was taken, else why not, without any part of the address.

    Args:
        recipient: To whom.
        notice: What.
    """
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
            body=notice.body,
            title=notice.title,
            notify_type=NotifyType.WARNING,
            body_format=NotifyFormat.TEXT,
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
