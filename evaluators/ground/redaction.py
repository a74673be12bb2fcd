"""Keeping API keys out of error texts, which end in logs, the ledger and reports."""

from __future__ import annotations

import re
from typing import Final

from leadline.evaluators.ground.secret_values import MASK, masked
from leadline.evaluators.ground.text import one_line

_LOOKS_SECRET: Final = re.compile(
    r"""
      \b (?:sk|rk|gsk) [-_] (?=[\w\-./+]*[\d*]) [\w\-./+*]{8,}
    | \b (?:pk|key) [-_] [\w\-./+*]*? (?=[A-Za-z*]*[\d*]) [A-Za-z0-9*]{12,} [\w\-./+*]*
    | \b hf_ [A-Za-z0-9*]{20,}
    | \b AIza [\w\-*]{20,}
    | (?<![a-z]) key \s (?=[\w\-./+]*[\d*]) [\w\-./+*]{12,}              # not: key findings
    | (?<![a-z]) (?:key\s?[:=]|bearer) \s? (?: (?=[\w\-./+]*[\d*]) [\w\-./+*]{6,} | [\w\-./+*]{20,} )
    | (?-i:(?<![A-Za-z])[Bb]earer \s (?![a-z]+\b) [\w\-./+*]{6,})            # not: bearer tokens
    | // [^/\s:@]+ : [^/\s@]+ @                                           # a password in an address
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What may be a key by its prefix or by the word before it: words alone are none, keys are long or have digits."""

LONGEST: Final = 300


def looks_secret(text: str) -> bool:
    """Return whether something in a text looks like a key."""
    return _LOOKS_SECRET.search(text) is not None


def without_secrets(text: str, *, longest: int = LONGEST) -> str:
    """Return another's error text, which may be logged then: one short line without keys or control characters.

    Taken out are the secrets of this process and whatever looks like a key.

    Args:
        text: The error text, of any length.
        longest: Where the line is cut.
    """
    return one_line(" ".join(_LOOKS_SECRET.sub(MASK, masked(text)[: 20 * longest]).split()))[:longest]
