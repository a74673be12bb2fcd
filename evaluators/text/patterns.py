r"""Regular expressions that users write: what Python's ``re`` accepts and means, with a time limit.

``re`` cannot be interrupted, so patterns run on the ``regex`` package, which can. The two differ in places, so a
pattern must first be valid for ``re`` and is then rewritten for ``regex``:

* ``\w``, ``\s``, ``\b`` and their opposites get the sets of characters that ``re`` gives them (``regex`` counts
  combining marks as word characters, for example, and ``²`` not);
* ``{e<=1}`` and ``[[:alpha:]]`` stay plain text and a plain set, instead of fuzzy matching and a POSIX class.

What still differs: characters that the interpreter's Unicode version does not know yet, and ``\B``, which matches
in an empty text as it does from Python 3.14 on. Verbose patterns and an ``a`` or ``u`` flag for a part of a pattern
are refused.

``regex`` writes repeats out when it compiles: ``((a{1000}){1000}){1000}`` becomes a thousand million parts, and a part
takes some 300 bytes. So a pattern's parts are counted first, from the tree that ``re`` parses it to.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from re import _constants, _parser  # type: ignore[attr-defined] # re's own parser; it has no public name
from threading import Lock
from typing import Any, Final

import regex
from cachetools import LRUCache, cached

MAX_PATTERN: Final = 10_000
"""Longest pattern that is accepted, in characters."""

MAX_PARTS: Final = 100_000
"""Parts that a pattern may have with its repeats written out; a pattern of MAX_PATTERN characters without any has less.

Compiling that many takes up to a second of processor time and some 70 MB.
"""

CACHED: Final = 500_000
"""Characters and parts of patterns that are kept compiled; that takes some hundred bytes for each."""

OVERHEAD: Final = 100
"""Characters that a cached text counts beside its own, so that the number of short texts is bounded too."""

_REPEATS: Final = frozenset((_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT))
_EDGE_PARTS: Final = 15
r"""Parts of what stands for ``\b`` here."""

_WORD: Final = r"\p{L}\p{N}_"
_SPACE: Final = r"\s\x1c-\x1f"
_NAMED: Final = re.compile(r"\\N\{([^}]*)\}")
_REPEAT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_FLAGS: Final = re.compile(r"\(\?([aiLmsux]*)(?:-[imsx]*)?([:)])")


class PatternError(ValueError):
    """A regular expression that is invalid or refused."""


def _size(entry: tuple[regex.Pattern[str], int]) -> int:
    return len(entry[0].pattern) + OVERHEAD + entry[1]


def compiled(pattern: str) -> regex.Pattern[str]:
    """Return the pattern, ready to search with a time limit; those that were used not long ago are remembered.

    Raises:
        PatternError: It is no valid regular expression of Python's ``re``, is too long, too deeply nested or repeats
            too often, or uses what is refused (see the module).
    """
    return _compiled(pattern)[0]


@cached(LRUCache(CACHED, getsizeof=_size), lock=Lock())
def _compiled(pattern: str) -> tuple[regex.Pattern[str], int]:
    """Return the pattern and the number of its parts."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the regular expression is longer than {MAX_PATTERN:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            parts = _parts(_parser.parse(pattern))
            if parts > MAX_PARTS:
                raise PatternError(
                    f"the repeats of the regular expression, written out, make more than {MAX_PARTS:,} parts"
                )
            flags = re.compile(pattern).flags
        rewritten = _Rewriter(pattern, ascii_only=bool(flags & re.ASCII)).rewrite()
        return regex.compile(rewritten, regex.V0, cache_pattern=False), parts
    except (re.error, regex.error) as error:
        raise PatternError(f"the regular expression is invalid: {error}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise PatternError("the regular expression is too deeply nested or repeats too often") from None


def _parts(tree: Any) -> int:
    """Return about how many parts ``regex`` makes of a piece of a pattern.

    Of ``x{3,7}`` it makes what is repeated, and three copies of it; so ``+`` doubles what it stands behind.

    Args:
        tree: What ``re`` parsed, or the argument of one of its operations.
    """
    if isinstance(tree, _parser.SubPattern):
        return sum(_parts_of(operation, argument) for operation, argument in tree)
    if isinstance(tree, list | tuple):  # the choices of a branch, the argument of a group with its flags
        return sum(map(_parts, tree))
    return 0


def _parts_of(operation: Any, argument: Any) -> int:
    if operation in _REPEATS:
        least, most, repeated = argument
        copies = 0 if (least, most) == (1, 1) else least
        return 1 + (copies + 1) * _parts(repeated)
    if operation is _constants.AT:
        return _EDGE_PARTS
    if operation is _constants.IN:
        return 3 + len(argument) // 4
    return 1 + _parts(argument)


def search(pattern: str, text: str, timeout: float) -> tuple[int, int] | None:
    """Return the limits of the first match as ``re.search`` would find it, or ``None``.

    Raises:
        TimeoutError: It took longer.
    """
    found = compiled(pattern).search(text, timeout=max(timeout, 1e-3))
    return None if found is None else (found.start(), found.end())


class _Rewriter:
    """Rewrites a pattern that is valid for ``re`` into one that means the same to ``regex``."""

    def __init__(self, pattern: str, *, ascii_only: bool) -> None:
        self.pattern = pattern
        self.at = 0
        word, space = (r"\w", r"\s") if ascii_only else (_WORD, _SPACE)
        edge = f"(?<=[{word}])(?![{word}])|(?<![{word}])(?=[{word}])"
        inside = f"(?<=[{word}])(?=[{word}])|(?<![{word}])(?![{word}])"
        self.members = {"w": word, "s": space}
        self.opposites = {"W": f"[^{word}]", "S": f"[^{space}]"}
        self.escapes = {"w": f"[{word}]", "s": f"[{space}]", "b": f"(?:{edge})", "B": f"(?:{inside})"}
        self.escapes |= self.opposites

    def rewrite(self) -> str:
        """Return the rewritten pattern."""
        out = []
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                out.append(self._escape())
            elif char == "[":
                out.append(self._set())
            elif char == "{":
                out.append(self._brace())
            elif char == "(":
                out.append(self._open())
            else:
                out.append("\\}" if char == "}" else char)
                self.at += 1
        return "".join(out)

    def _escape(self, *, inside_set: bool = False) -> str:
        named = _NAMED.match(self.pattern, self.at)
        if named:
            self.at = named.end()
            return re.escape(unicodedata.lookup(named[1]))
        letter = self.pattern[self.at + 1]
        self.at += 2
        known = self.members if inside_set else self.escapes
        return known.get(letter, "\\" + letter)

    def _brace(self) -> str:
        repeat = _REPEAT.match(self.pattern, self.at)
        if repeat is None or repeat[0] == "{}":
            self.at += 1
            return "\\{"
        self.at = repeat.end()
        return f"{{{repeat[1] or 0}{repeat[2]}{repeat[3]}}}"

    def _open(self) -> str:
        start = self.at
        if self.pattern.startswith("(?#", start):
            self.at = self.pattern.index(")", start) + 1
            return ""
        flags = _FLAGS.match(self.pattern, start)
        if flags is None:
            self.at += 1
            return "("
        if "x" in flags[1] or (flags[2] == ":" and set(flags[1]) & set("au")):
            raise PatternError(f"the flags in {flags[0]} are not supported in a regular expression here")
        self.at = flags.end()
        return flags[0]

    def _set(self) -> str:
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        members, opposites = "", []
        first = True
        while first or self.pattern[self.at] != "]":
            first = False
            char = self.pattern[self.at]
            if char == "\\" and self.pattern[self.at + 1] in self.opposites:
                opposites.append(self.opposites[self.pattern[self.at + 1]])
                self.at += 2
            elif char == "\\":
                members += self._escape(inside_set=True)
            else:
                members += "\\" + char if char in "[]&|~" else char
                self.at += 1
        self.at += 1
        if not opposites:
            return f"[{'^' if negated else ''}{members}]"
        choices = "|".join([*opposites, f"[{members}]"] if members else opposites)
        return f"(?:(?!{choices})(?s:.))" if negated else f"(?:{choices})"
