"""Tokens that give access to a page or a tool."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SHORTEST: Final = 12
"""Characters of a token at least."""


def same(given: str, wanted: str) -> bool:
    """Return whether two secrets are equal, in a time that says nothing about where they differ.

    Args:
        given: The secret that somebody sent.
        wanted: The right one.
    """
    return hmac.compare_digest(*(hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, wanted)))
