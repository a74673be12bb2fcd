"""Names of people who label: the one that access knows, or one that they gave, which a signed cookie keeps."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.http_server import same
from leadline.plugins.ui.access import derived, set_cookie
from leadline.plugins.ui.site import person_of
from leadline.tasks.load.label import ADJUDICATED

LONGEST: Final = 80
"""Characters of a name."""


def name_of(request: Request) -> str:
    """Return the name under which somebody labels, "" where nobody knows it yet."""
    person = person_of(request)
    if person.name:
        return person.name
    if not person.csrf:
        return ""
    name, _, signature = request.cookies.get(_cookie(person.csrf), "").rpartition(".")
    return unquote(name) if name and same(signature, _signature(person.csrf, unquote(name))) else ""


def readable_name(text: str) -> str:
    """Return the name that somebody gave.

    Raises:
        UsageError: It cannot be one.
    """
    name = " ".join(text.split())
    if not name or len(name) > LONGEST or not name.isprintable() or name.casefold() == ADJUDICATED:
        raise UsageError(
            "That cannot be a name.",
            hint=f"Take up to {LONGEST} letters; {ADJUDICATED!r} is the name of what was agreed on.",
            code=ErrorCode.LABEL_FILE,
        )
    return name


def keep_name(request: Request, answer: Response, name: str, base: str) -> None:
    """Let the browser keep a name.

    Args:
        base: Path below which browsers find the pages.
    """
    secret = person_of(request).csrf
    value = f"{quote(name, safe='')}.{_signature(secret, name)}"
    set_cookie(answer, request, _cookie(secret), value, secure=False, base=base)


def _cookie(secret: str) -> str:
    """Return the cookie's name; browsers keep one jar for all ports of a host, where other stores may be served."""
    return f"leadline-name-{_signature(secret, '')[:8]}"


def _signature(secret: str, name: str) -> str:
    return derived(secret, f"leadline ui name\0{name}")
