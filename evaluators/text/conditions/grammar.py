r"""Parses text-matching conditions: the strings and regular expressions that a text must and must not contain.

Grammar (of the reference, a subset of Google's AIP-160 with its own precedence, NOT over AND over OR)::

    expr := and ("OR" and)*
    and  := not ("AND" not)*
    not  := "NOT"* atom
    atom := "string" | regexp("pattern") | ( expr )

Operators are upper case. White space of any kind separates, and is needed only between two words. In a string ``\"``
is a quote and ``\\`` a backslash; every other character, a lone backslash included, stands for itself. A pattern is
taken literally, so ``\d`` needs one backslash and ``\"`` is a quote.

The meaning of a condition is described and computed in :mod:`leadline.evaluators.text.conditions.check`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from cachetools import LRUCache, cached

from leadline.evaluators.text.conditions.patterns import OVERHEAD, PatternError, compiled

MAX_LENGTH: Final = 100_000
"""Longest condition that is accepted, in characters."""

MAX_DEPTH: Final = 50
"""Most parentheses and NOTs inside each other."""

CACHED: Final = 1_000_000
"""Characters of conditions that are kept parsed; their trees take some 50 bytes for each at most."""


class ConditionError(ValueError):
    """A condition that does not parse.

    Attributes:
        position: Where, counted in characters from 0.
        expected: The text that should have stood there, or what is wrong.
        found: The text that stands there.
    """

    def __init__(self, position: int, expected: str, found: str = "") -> None:
        self.position = position
        self.expected = expected
        self.found = found
        super().__init__(f"at character {position + 1}: {expected}" + (f", found {found}" if found else ""))


class ConditionPart(NamedTuple):
    """A part of a condition as it was written; parts inside each other share the one string that they are cut from.

    Attributes:
        start: The part's first character in it.
        end: One past its last character, ``None`` for the end of the condition.
    """

    condition: str = ""
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        return self.condition[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Text:
    """A string that must occur."""

    value: str
    source: ConditionPart = field(default=ConditionPart(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Regexp:
    """A regular expression that must match somewhere."""

    pattern: str
    source: ConditionPart = field(default=ConditionPart(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when its operand does not."""

    operand: Node
    source: ConditionPart = field(default=ConditionPart(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """Holds when all operands do; at least two."""

    operands: tuple[Node, ...]
    source: ConditionPart = field(default=ConditionPart(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Holds when one operand does; at least two."""

    operands: tuple[Node, ...]
    source: ConditionPart = field(default=ConditionPart(), compare=False, repr=False)


Node: TypeAlias = "Text | Regexp | Not | And | Or"
"""A parsed condition. ``source`` is the part of the condition that it was parsed from."""


def quote(text: str) -> str:
    """Return the condition that a text contains this string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quote_regexp(pattern: str) -> str:
    """Return the condition that a text matches this pattern."""
    return 'regexp("' + re.sub(r'\\.|"', lambda m: '\\"' if m[0] == '"' else m[0], pattern, flags=re.DOTALL) + '")'


def _size(node: Node) -> int:
    return len(node.source.condition) + OVERHEAD


@cached(LRUCache(CACHED, getsizeof=_size), lock=Lock())
def parse(source: str) -> Node:
    """Parse a condition, or return what it was parsed to not long ago.

    Raises:
        ConditionError: It is empty, too long or too deeply nested, breaks the grammar, or has an invalid
            regular expression.
    """
    if len(source) > MAX_LENGTH:
        raise ConditionError(MAX_LENGTH, f"a condition has at most {MAX_LENGTH:,} characters")
    return _Parser(source).condition()


class _Token(NamedTuple):
    kind: str
    start: int
    end: int

    def shown(self, source: str) -> str:
        return "the end" if self.kind == "end" else shortened(source[self.start : self.end], 40)


_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_WORD: Final = re.compile(r"\w+")
_HINTS: Final = {
    "“": "use straight double quotes",
    "”": "use straight double quotes",
    "'": "use double quotes",
}


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = _tokens(source)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def condition(self) -> Node:
        if self.token.kind == "end":
            raise ConditionError(0, 'the condition is empty, expected a "string", regexp("…") or (')
        node = self.either()
        if self.token.kind != "end":
            raise self.unexpected("expected AND, OR or the end")
        return node

    def either(self) -> Node:
        first = self.at
        operands = [self.both()]
        while self.take("OR"):
            operands.append(self.both())
        return operands[0] if len(operands) == 1 else Or(tuple(operands), self.since(first))

    def both(self) -> Node:
        first = self.at
        operands = [self.negation()]
        while self.take("AND"):
            operands.append(self.negation())
        return operands[0] if len(operands) == 1 else And(tuple(operands), self.since(first))

    def negation(self) -> Node:
        first = self.at
        while self.take("NOT"):
            self.deeper()
        nots = self.at - first
        node = self.atom()
        for back in range(1, nots + 1):
            node = Not(node, self.since(first + nots - back))
        self.depth -= nots
        return node

    def atom(self) -> Node:
        first = self.at
        if self.take("("):
            self.deeper()
            node = self.either()
            self.need(")", "expected AND, OR or )")
            self.depth -= 1
            return node
        if self.take("regexp"):
            self.need("(", "expected ( after regexp")
            string = self.need("string", "expected the pattern in double quotes")
            self.need(")", "expected ) after the pattern")
            pattern = self.source[string.start + 1 : string.end - 1]
            try:
                compiled(pattern)
            except PatternError as error:
                raise ConditionError(string.start, str(error)) from None
            return Regexp(pattern, self.since(first))
        string = self.need("string", 'expected a "string", regexp("…"), NOT or (')
        value = re.sub(r'\\(["\\])', r"\1", self.source[string.start + 1 : string.end - 1])
        return Text(value, self.since(first))

    def take(self, kind: str) -> bool:
        found = self.token.kind == kind
        self.at += found
        return found

    def need(self, kind: str, message: str) -> _Token:
        token = self.token
        if not self.take(kind):
            raise self.unexpected(message)
        return token

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConditionError(
                self.tokens[self.at - 1].start, f"parentheses and NOTs are nested more than {MAX_DEPTH} deep"
            )

    def since(self, first: int) -> ConditionPart:
        return ConditionPart(self.source, self.tokens[first].start, self.tokens[self.at - 1].end)

    def unexpected(self, message: str) -> ConditionError:
        return ConditionError(self.token.start, message, self.token.shown(self.source))


def _tokens(source: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(source):
        char = source[at]
        if char.isspace():
            at += 1
            continue
        if char in "()":
            token = _Token(char, at, at + 1)
        elif char == '"':
            string = _STRING.match(source, at)
            if string is None:
                raise ConditionError(at, "this double quote is never closed")
            token = _Token("string", at, string.end())
        else:
            token = _word(source, at)
        tokens.append(token)
        at = token.end
    tokens.append(_Token("end", len(source), len(source)))
    return tokens


def _word(source: str, at: int) -> _Token:
    found = _WORD.match(source, at)
    word = found[0] if found else source[at]
    if word in ("AND", "OR", "NOT", "regexp"):
        return _Token(word, at, at + len(word))
    if word.upper() in ("AND", "OR", "NOT"):
        raise ConditionError(at, f"operators are upper case: write {word.upper()}", shortened(word, 40))
    hint = _HINTS.get(word, "text stands in double quotes")
    raise ConditionError(
        at, f'expected "string", regexp("…"), AND, OR, NOT or a parenthesis ({hint})', shortened(word, 40)
    )


def shortened(text: str, length: int) -> str:
    """Return a text, cut to a length with an ellipsis if it is longer.

    Args:
        length: Most characters of the result.
    """
    return text if len(text) <= length else text[: length - 1] + "…"
