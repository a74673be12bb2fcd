r"""Text-matching conditions: the strings and regular expressions that a text must and must not contain.

Grammar (of the reference, a subset of Google's AIP-160 with its own precedence, NOT over AND over OR)::

    expr := and ("OR" and)*
    and  := not ("AND" not)*
    not  := "NOT"* atom
    atom := "string" | regexp("pattern") | ( expr )

Operators are upper case. White space of any kind separates, and is needed only between two words. In a string ``\"``
is a quote and ``\\`` a backslash; every other character, a lone backslash included, stands for itself. A pattern is
taken literally, so ``\d`` needs one backslash and ``\"`` is a quote.

A string matches where it occurs, case-sensitively. A pattern matches as ``re.search`` without flags does (see
:mod:`leadline.evaluators.text.patterns`). ``""`` and ``regexp("")`` match every text.

**Part of a text.** The known text may be incomplete; the rest are lines of their own. An operand that is
absent may stand there and is unknown then. So is a pattern that matches but may not when the text goes on, since it
looks at the end (``$``, ``\Z``), at absence (``(?!...)``, ``(?<!...)``), or matches in a way that depends on what else
could (``(?>...)``, ``a*+``, back-references, conditional groups). What is certain in spite of that follows from
Kleene's strong three-valued logic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from cachetools import LRUCache, cached

from leadline.evaluators.data import ContextChunk, Source, Span
from leadline.evaluators.text.patterns import OVERHEAD, PatternError, compiled, search

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
    """Return a text, cut to a length with an ellipsis if it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


DEFAULT_TIMEOUT: Final = 2.0
"""Seconds that the regular expressions of one condition may take on one text, all together."""

JOINT: Final = " "
"""The text between two chunks when a condition is checked on the retrieved context."""

_SHOWN: Final = 500
"""Most characters of a condition in a message."""


class Match(NamedTuple):
    """An operand of a condition that was found in a text.

    Attributes:
        start: First character.
        end: One past the last character.
        operand: The operand as it is written in the condition.
        unwanted: Whether it stands under an odd number of NOTs.
    """

    start: int
    end: int
    operand: str
    unwanted: bool


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """The result of a condition on one text.

    Attributes:
        matched: Whether the condition is known to hold.
        failed: The part of the condition that decided that it does not, in its source form: the first failing
            operand of an AND, or an OR or a NOT in full. Empty when it is met.
        matches: First occurrences of the operands that were looked for and found. AND and OR stop as soon as they
            are decided.
        certain: Whether it would hold, or not hold, whatever else the text contained.
    """

    matched: bool
    failed: str
    matches: tuple[Match, ...]
    certain: bool = True

    def __bool__(self) -> bool:
        return self.matched


def evaluate(
    node: Node,
    text: str,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    complete: bool = True,
    readings: Sequence[tuple[int, int]] = (),
) -> ConditionOutcome:
    """Check a condition on a text.

    Args:
        node: The condition.
        timeout: Seconds that its regular expressions may take, all together.
        complete: Whether this is all of the text. If not, an operand may be unknown (see the module), and so may be
            the condition.
        readings: Stretches (first character, one past the last) that make up the text, with a line break between
            two, each of which may be the text that was meant. A pattern matches too if it does in one of them by
            itself, so that ``^`` and ``$`` mean its limits. Only what it demands to be absent, ``(?!...)``, has to be
            so in all of them, so that they are read in one, with blanks for these line breaks (under NOT, to match in
            any is enough).

    Raises:
        TimeoutError: Its regular expressions took longer than ``timeout`` seconds, all together.
    """
    walk = _Walk(text, time.monotonic() + timeout, complete=complete, readings=readings)
    holds, failed = walk.run(node, unwanted=False)
    return ConditionOutcome(holds is True, failed, tuple(walk.matches), certain=holds is not None)


class _Walk:
    """A walk over a condition: for each part, whether it holds (``None``: unknown) and, if not, what decided that."""

    def __init__(self, text: str, deadline: float, *, complete: bool, readings: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.deadline = deadline
        self.complete = complete
        self.readings = readings
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
        found = self.string(node.value) if isinstance(node, Text) else self.pattern(node, unwanted)
        if found is None:
            return (False if self.complete else None), str(node.source)
        if not self.complete and isinstance(node, Regexp) and may_turn(node.pattern):
            return None, str(node.source)
        if found[0] < found[1]:
            self.matches.append(Match(*found, str(node.source), unwanted))
        return True, ""

    def string(self, value: str) -> tuple[int, int] | None:
        start = self.text.find(value)
        return None if start < 0 else (start, start + len(value))

    def pattern(self, node: Regexp, unwanted: bool) -> tuple[int, int] | None:
        try:
            for origin, text in self.texts(node.pattern, unwanted):
                found = search(node.pattern, text, self.deadline - time.monotonic())
                if found is not None:
                    return origin + found[0], origin + found[1]
        except TimeoutError:
            raise TimeoutError(f"{shortened(str(node.source), 200)} took too long on this text") from None
        return None

    def texts(self, pattern: str, unwanted: bool) -> Iterator[tuple[int, str]]:
        """Yield the texts that a pattern is searched in, each with its place in the full text."""
        if self.readings and not unwanted and _ABSENCE.search(pattern):
            yield 0, " ".join(self.text[start:end] for start, end in self.readings)
            return
        yield 0, self.text
        for start, end in self.readings:
            yield start, self.text[start:end]


_ABSENCE: Final = re.compile(r"\(\?<?!")

_PIECE: Final = re.compile(
    r"""\\.                                                    # an escape
    | \[\^?\]?(?:\\.|[^\\\]])*+\]                              # a set
    | \(\?(?:[:=]|<=|P<|[aiLmsux]*(?:-[imsx]+)?[:)])           # a group that asserts no absence
    | \(\?                                                     # another group
    | (?:[*+?]|\{[0-9]*,?[0-9]*\})\+?                          # a repeat, possessive with a plus
    | .""",
    re.DOTALL | re.VERBOSE,
)
_TURNING: Final = re.compile(r"\$|\\[Zz1-9]|\(\?|(?:[*+?]|\{.*\})\+")


def may_turn(pattern: str) -> bool:
    """Return whether a valid pattern that matches a text may not match it once more lines follow; in doubt, it may.

    A search for a match that only looks at what is there still finds the one it found. That is so as long as the
    pattern asserts no end and no absence, gives back what it took, and nothing in it depends on what a group matched.
    """
    return any(_TURNING.fullmatch(piece) for piece in _PIECE.findall(pattern))


def joined(chunks: Sequence[ContextChunk]) -> str:
    """Return the retrieved context as one text."""
    return JOINT.join(chunk.content for chunk in chunks)


def failure(what: str, condition: str, outcome: ConditionOutcome) -> str:
    """Return one or two sentences about a condition that does not hold, ``""`` when it does."""
    if outcome.matched:
        return ""
    message = f"{what} did not satisfy the condition: {_shown(condition)}."
    if outcome.failed != condition.strip():
        message += f" The part that did not match: {_shown(outcome.failed)}."
    return message


def note(match: Match) -> str:
    """Return the note of a span that shows an operand."""
    return _shown(f"unwanted: {match.operand}" if match.unwanted else match.operand)


def answer_spans(outcome: ConditionOutcome) -> Iterator[Span]:
    """Yield the spans of the operands in the answer."""
    for match in outcome.matches:
        yield Span(Source.ACTUAL_ANSWER, match.start, match.end, note=note(match))


def context_spans(outcome: ConditionOutcome, chunks: Sequence[ContextChunk]) -> Iterator[Span]:
    """Yield the spans of the operands in the chunks; an operand that reaches over several has one in each."""
    for match in outcome.matches:
        begin = 0
        for index, chunk in enumerate(chunks):
            start, end = max(match.start - begin, 0), min(match.end - begin, len(chunk.content))
            if start < end:
                yield Span(Source.RETRIEVED_CONTEXT, start, end, index, note=note(match))
            begin += len(chunk.content) + len(JOINT)


def _shown(text: str) -> str:
    return shortened(text.strip(), _SHOWN)
