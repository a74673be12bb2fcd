r"""Text-matching conditions: which strings and regular expressions a text must and must not hold.

Grammar (of the reference, a subset of Google's AIP-160 with its own precedence, NOT over AND over OR)::

    expr := and ("OR" and)*
    and  := not ("AND" not)*
    not  := "NOT"* atom
    atom := "string" | regexp("pattern") | ( expr )

Operators are upper case. White space of any kind separates, and is needed only between two words. In a string ``\"``
is a quote and ``\\`` a backslash; every other character, a lone backslash included, stands for itself. A pattern is
taken as it stands, so ``\d`` needs one backslash and ``\"`` is a quote.

A string matches where it occurs, case-sensitively. A pattern matches as ``re.search`` without flags does (see
:mod:`evaluators.text.patterns`). ``""`` and ``regexp("")`` match every text.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from evaluators.text.patterns import PatternError, compiled, search
from evaluators.text.recent import Recent

MAX_LENGTH: Final = 100_000
"""Longest condition that is accepted, in characters."""

MAX_DEPTH: Final = 50
"""How many parentheses and NOTs may stand inside each other."""

CACHED: Final = 1_000_000
"""Characters of conditions that are kept parsed; their trees take some 50 bytes for each at most."""

DEFAULT_TIMEOUT: Final = 2.0
"""Seconds that the regular expressions of one condition may take on one text, all together."""


class ConditionError(ValueError):
    """A condition that does not parse.

    Attributes:
        position: Where, counted in characters from 0.
        expected: What should have stood there, or what is wrong with what does.
        found: What stands there.
    """

    def __init__(self, position: int, expected: str, found: str = "") -> None:
        self.position = position
        self.expected = expected
        self.found = found
        super().__init__(f"at character {position + 1}: {expected}" + (f", found {found}" if found else ""))


class Part(NamedTuple):
    """A part of a condition as it was written; parts inside each other share the one string that they are cut from.

    Attributes:
        whole: The condition.
        start: The part's first character in it.
        end: One past its last character, ``None`` for the end of the condition.
    """

    whole: str = ""
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        return self.whole[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Text:
    """A string that must occur."""

    value: str
    source: Part = field(default=Part(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Regexp:
    """A regular expression that must match somewhere."""

    pattern: str
    source: Part = field(default=Part(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when its operand does not."""

    operand: Node
    source: Part = field(default=Part(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """Holds when all operands do; at least two."""

    operands: tuple[Node, ...]
    source: Part = field(default=Part(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Holds when one operand does; at least two."""

    operands: tuple[Node, ...]
    source: Part = field(default=Part(), compare=False, repr=False)


Node: TypeAlias = "Text | Regexp | Not | And | Or"
"""A parsed condition. ``source`` is the part of the condition that it was parsed from."""

_parsed: Final[Recent[Node]] = Recent(CACHED)


def quote(text: str) -> str:
    """Return the condition that a text holds this string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quote_regexp(pattern: str) -> str:
    """Return the condition that a text matches this pattern."""
    return 'regexp("' + re.sub(r'\\.|"', lambda m: '\\"' if m[0] == '"' else m[0], pattern, flags=re.DOTALL) + '")'


def parse(source: str) -> Node:
    """Parse a condition, or return what it was parsed to not long ago.

    Raises:
        ConditionError: It is empty, too long or too deeply nested, breaks the grammar, or holds an invalid
            regular expression.
    """
    if len(source) > MAX_LENGTH:
        raise ConditionError(MAX_LENGTH, f"a condition has at most {MAX_LENGTH:,} characters")
    node = _parsed.get(source)
    if node is None:
        node = _Parser(source).condition()
        _parsed.put(source, node)
    return node


class _Token(NamedTuple):
    kind: str
    start: int
    end: int

    def shown(self, source: str) -> str:
        return "the end" if self.kind == "end" else _short(source[self.start : self.end], 40)


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

    def since(self, first: int) -> Part:
        return Part(self.source, self.tokens[first].start, self.tokens[self.at - 1].end)

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
        raise ConditionError(at, f"operators are upper case: write {word.upper()}", _short(word, 40))
    hint = _HINTS.get(word, "text stands in double quotes")
    raise ConditionError(
        at, f'expected "string", regexp("…"), AND, OR, NOT or a parenthesis ({hint})', _short(word, 40)
    )


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class Match(NamedTuple):
    """Where an operand of a condition was found.

    Attributes:
        start: First character.
        end: One past the last character.
        operand: The operand as it stands in the condition.
        unwanted: Whether it stands under an odd number of NOTs.
    """

    start: int
    end: int
    operand: str
    unwanted: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a condition on one text.

    Attributes:
        matched: Whether the condition is known to hold.
        failed: The part of the condition that decided that it does not, in its source form: the first failing
            operand of an AND, the whole of an OR, the whole of a NOT. Empty when it holds.
        matches: First occurrences of the operands that were looked for and found. AND and OR stop as soon as they
            are decided.
        certain: Whether it would hold, or not hold, whatever else the text said.
    """

    matched: bool
    failed: str
    matches: tuple[Match, ...]
    certain: bool = True

    def __bool__(self) -> bool:
        return self.matched


def evaluate(node: Node, text: str, *, timeout: float = DEFAULT_TIMEOUT, complete: bool = True) -> Outcome:
    """Check a condition on a text.

    Args:
        node: The condition.
        text: The text.
        timeout: Seconds that its regular expressions may take, all together.
        complete: Whether this is all of the text. If not, an operand that is absent may stand in the rest: it is
            unknown, and so may be the condition (Kleene's strong three-valued logic).

    Raises:
        TimeoutError: Its regular expressions took longer than ``timeout`` seconds, all together.
    """
    check = _Check(text, time.monotonic() + timeout, absent=False if complete else None)
    holds, failed = check.run(node, unwanted=False)
    return Outcome(holds is True, failed, tuple(check.matches), certain=holds is not None)


class _Check:
    """A walk over a condition; each step tells whether a part holds (``None``: unknown), and what decided if not."""

    def __init__(self, text: str, deadline: float, *, absent: bool | None) -> None:
        self.text = text
        self.deadline = deadline
        self.absent = absent
        self.matches: list[Match] = []

    def run(self, node: Node, *, unwanted: bool) -> tuple[bool | None, str]:
        match node:
            case Text() | Regexp():
                return self.operand(node, unwanted)
            case Not(operand, source):
                holds, _ = self.run(operand, unwanted=not unwanted)
                return (True, "") if holds is False else (None if holds is None else False, str(source))
            case And(operands):
                value: bool | None = True
                first = ""
                for operand in operands:
                    holds, failed = self.run(operand, unwanted=unwanted)
                    if holds is False:
                        return False, failed
                    if holds is None and value:
                        value, first = None, failed
                return value, first
            case Or(operands, source):
                value = False
                for operand in operands:
                    holds, _ = self.run(operand, unwanted=unwanted)
                    if holds:
                        return True, ""
                    value = None if holds is None else value
                return value, str(source)

    def operand(self, node: Text | Regexp, unwanted: bool) -> tuple[bool | None, str]:
        if isinstance(node, Text):
            start = self.text.find(node.value)
            found = None if start < 0 else (start, start + len(node.value))
        else:
            try:
                found = search(node.pattern, self.text, self.deadline - time.monotonic())
            except TimeoutError:
                raise TimeoutError(f"{_short(str(node.source), 200)} took too long on this text") from None
        if found is None:
            return self.absent, str(node.source)
        if found[0] < found[1]:
            self.matches.append(Match(*found, str(node.source), unwanted))
        return True, ""
