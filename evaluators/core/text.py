"""Words of messages: a number and its noun, and texts of others that must not pass for lines of ours."""

from __future__ import annotations


def count(n: int, what: str, plural: str = "") -> str:
    """Return a number with its noun: "1 row", "1,200 rows", "2 replies".

    Args:
        n: How many.
        what: The noun for one.
        plural: The noun for several; by default with an s.
    """
    return f"{n:,} {nouns(n, what, plural)}"


def nouns(n: int, what: str, plural: str = "") -> str:
    """Return the noun alone, for where a number stands in other places."""
    return what if n == 1 else plural or f"{what}s"


def one_line(text: str) -> str:
    r"""Return a text on one line.

    What cannot be printed (control characters, line ends, overrides of the writing direction, halves of surrogate
    pairs) is shown as Python writes it, such as ``\n``.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
