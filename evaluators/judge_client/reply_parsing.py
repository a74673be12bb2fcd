"""A judge's reply: the schema a provider enforces on it, and how it is read: strictly, or not at all.

A :class:`WordWatch` sees whether a judge ever says one of the words that it is asked for. A prompt that asks for "yes"
or "no" while the classes are "true" and "false" is never answered by a class. So no more than :data:`MOST_UNREAD` rows
are asked about before a first word was read, and no further one if it never is.

A reply that is not what was asked for is a :class:`JudgeUnparseable`, never a guess: no first digit of a sentence, no
word of "not correct", no key that stands twice.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from leadline.evaluators.ground import count, listing
from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.text.sentences import without_surrogates

M = TypeVar("M", bound=BaseModel)

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")


_LONGEST_LINE: Final = 200
"""Characters of a line in which a word may stand alone."""

_OPENING: Final = r"[\s*_`\"'“”„\u2018\u2019«»(\[#>]*"
_CLOSING: Final = r"[\s*_`\"'“”\u2018\u2019«»)\].!]*"
_NOUN: Final = (
    "(?:(?:the|my|final|overall) ){0,2}"
    "(?:answer|assessment|category|class|classification|conclusion|decision|evaluation|judge?ment|label|rating|reply"
    "|response|result|verdict)"
)
_COLON: Final = rf"{_OPENING}{_NOUN}[*_`\"']*(?: is)?:"
_IS: Final = rf"{_OPENING}{_NOUN} is(?= )"
_FENCE_LINE: Final = re.compile(r"^[ \t]*```\w*[ \t]*$", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n[ \t]*\n")


_DENIAL: Final = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|opposite|contrary|instead|rather than|other than|unless|without|reverse"
    r"|far from|example|format|hardly|refuse|anything but|wrong|false|if)\b|n['\u2019]t\b"
)
_LEADING_IN: Final = re.compile(
    rf"(?:^{_OPENING}|\b(?:is|my|the|final|overall) )(?:{_NOUN}|output|score|choice)[*_`\"']*(?: is)?:$"
    r"|\b(?:therefore|thus|hence|so|i (?:would )?(?:say|conclude|judge)):$"
)
"""Lines that a word which stands below them answers."""
_SECOND_THOUGHT: Final = re.compile(
    r"(?:^|[.!?\n])[\s*_\"'(]{0,9}(?:wait|actually|correction|sorry|oops|hmm|hold on|scratch that|disregard"
    r"|ignore (?:that|this|the|my)|i mean|strike that|on reflection|edit(?=:))\b"
    r"|\b(?:kidding|joking|second thoughts?|my mistake|chang(?:e|ed|ing) my mind|tak(?:e|ing) (?:that|it) back"
    r"|i (?:retract|withdraw)|let me reconsider|(?:that|this|it|above) (?:is|was) (?:just |only )?(?:an?|the) (?:\w+ )?"
    r"(?:example(?! of)|sample|placeholder|template))\b"
)
"""What says of the word before it that it was not meant."""

_DROPPED: Final = frozenset(
    {"default", "title", "minLength", "maxLength", "uniqueItems", "contentEncoding", "examples"}
)
"""Keywords that strict mode refuses or that tell a judge nothing; the parser checks what they say all the same."""

_LISTS: Final = ("anyOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")
_REMEMBERED: Final = 256
_formats: Final[dict[int, tuple[Mapping[str, Any], dict[str, Any]]]] = {}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float | int:
    """Return a number; a whole one as an integer, as JSON's schemas have it."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]} is too large")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _whole(text: str) -> int:
    """Return a whole number that a field of any kind of number can hold; a longer one would become infinite."""
    if len(text) > sys.float_info.max_10_exp:
        raise ValueError(f"{text[:20]} is too large")
    return int(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


_DECODER: Final = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_without_repeats
)


def read_json(text: str, kind: type[M]) -> M:
    """Return the JSON object that a reply ends with, alone, in a code block, or after prose.

    Args:
        text: The reply.
        kind: The model that the object must fit, type by type: ``true`` and ``"1"`` are no numbers.

    Raises:
        JudgeUnparseable: There is none, a key stands twice in it, something follows it, or it does not fit.
    """
    value = _only_object(text)
    try:
        plain = json.dumps(value, ensure_ascii=False)
        return kind.model_validate_json(without_surrogates(plain), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise JudgeUnparseable(f"The reply's JSON does not fit: {where}: {first['msg']}.") from error
    except RecursionError:
        raise JudgeUnparseable("The reply's JSON cannot be read: it is nested too deeply.") from None


def _only_object(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0 or text[:start].rstrip().endswith("["):  # a list, which may be cut off
        raise JudgeUnparseable("The reply holds no JSON object.")
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise JudgeUnparseable(f"The reply's JSON is broken: {error.msg}.") from None
    except (ValueError, RecursionError) as error:  # NaN, a key that stands twice, a tower of brackets
        raise JudgeUnparseable(f"The reply's JSON cannot be read: {str(error)[:100]}.") from None
    rest = text[end:].strip()
    if "{" in rest:
        raise JudgeUnparseable("The reply holds more than one JSON object.")
    if rest and not (rest == "```" and "```" in text[:start]):
        raise JudgeUnparseable("Text follows the reply's JSON object.")
    return dict(value)


def read_word(text: str, words: Sequence[str]) -> str:
    """Return the one of the given words that stands alone in a reply, in any case.

    Marks, quotes, a code block and a label such as "Answer:" or "The verdict is" may be around it. Reasoning may come
    before or after it, in another paragraph or beside a line "Answer: …", if none of the words stands in there, the
    line before does not lead into it with a denial ("I would never say:"), and nothing after it takes it back
    ("Wait, …").

    Args:
        text: The reply.
        words: The words to choose from, different from each other in lower case.

    Raises:
        JudgeUnparseable: None of them stands there, several do, one does in a sentence ("not correct"), or is taken
            back.
    """
    known = {word.lower(): word for word in words}
    either = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    reply = text.lower()
    found = re.findall(rf"(?<![^\W_])(?<!-)(?:{either})(?![^\W_])(?!-)", reply)
    alone = [word for word in (_alone(place, pattern) for place, pattern in _places(reply, either)) if word]
    if len(set(found)) == 1 and len(found) == len(alone):
        if _is_taken_back(reply, found[0]):
            raise JudgeUnparseable(f"The reply holds {found[0]}, and takes it back or denies it in what stands around.")
        return known[found[0]]
    listed = " and ".join(sorted(set(found)))
    held = f"{listed} and more" if len(set(found)) == 1 else listed or "none"
    raise JudgeUnparseable(f"The reply must be one of {', '.join(words)} and nothing else; it holds {held}.")


def _is_taken_back(reply: str, word: str) -> bool:
    """Return whether what stands around a word that is alone denies it, or says after it that it was not meant.

    Args:
        reply: The reply in lower case.
        word: A word that it holds; more than once only where each stands alone.
    """
    standing = rf"(?<![^\W_])(?<!-){re.escape(word)}(?![^\W_])(?!-)"
    places = list(re.finditer(standing, reply))
    before = reply[: places[0].start()].rpartition("\n")[0].rstrip(" \t\n*_`#>")
    last_line = before[before.rfind("\n") + 1 :]
    denied = _DENIAL.search(last_line) and not last_line.endswith((".", "!", "?", ")", "\u3002"))
    if last_line.endswith(":"):
        denied = denied or not _LEADING_IN.search(last_line)
    elif re.match(_COLON, reply[reply.rfind("\n", 0, places[0].start()) + 1 :]):
        denied = None  # a line "Answer: …" goes on from no other
    return bool(denied or _SECOND_THOUGHT.search(reply, places[-1].end()))


def _places(reply: str, either: str) -> list[tuple[str, str]]:
    """Return the paragraphs and lines in which one of some words may stand alone, each with the pattern for it.

    Args:
        reply: The reply in lower case.
        either: A pattern for the words.
    """
    plain = _FENCE_LINE.sub("", "\n".join(reply.splitlines())).strip()
    paragraphs = _PARAGRAPH.split(plain)
    edges = [paragraphs[0], paragraphs[-1]] if len(paragraphs) > 1 else paragraphs
    in_paragraph = rf"(?:{_COLON}|{_IS})?{_OPENING}({either}){_CLOSING}"
    lines = [line for edge in edges if "\n" in edge for line in edge.splitlines()]
    in_line = rf"{_COLON}{_OPENING}({either}){_CLOSING}"
    return [(edge, in_paragraph) for edge in edges] + [(line, in_line) for line in lines]


def _alone(place: str, pattern: str) -> str:
    """Return the word that a place consists of, ``""`` if it holds anything else."""
    match = re.fullmatch(pattern, place) if len(place) <= _LONGEST_LINE else None
    return match[1] if match else ""


def read_number(text: str, low: float, high: float) -> float:
    """Return the number that a reply consists of.

    Args:
        text: The reply.
        low: Least number allowed.
        high: Greatest number allowed.

    Raises:
        JudgeUnparseable: The reply is more than one number, none, or one out of range.
    """
    plain = text.strip().removesuffix(".")
    if not _NUMBER.fullmatch(plain):
        raise JudgeUnparseable("The reply is not a number.")
    value = float(plain) + 0.0  # no -0
    if not low <= value <= high:
        raise JudgeUnparseable(f"The reply's number {value:g} is not between {low:g} and {high:g}.")
    return value


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for a reply by a schema, strict where strict mode can express it.

    It is remembered by the schema itself, which each shape of a reply has one of.
    """
    known = _formats.get(id(schema))
    if known is not None:
        return known[1]
    strict = strict_schema(schema)
    name = re.sub(r"\W", "_", str(schema.get("title", "reply")))
    sent = {"name": name, "schema": strict or dict(schema), "strict": strict is not None}
    made = {"type": "json_schema", "json_schema": sent}
    if len(_formats) < _REMEMBERED:
        _formats[id(schema)] = schema, made  # held, so that its id stays its own
    return made


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema that strict mode takes, or ``None`` for one that it cannot express.

    Every object, nested ones and those in ``$defs`` included, requires all its properties and allows no others;
    an ``allOf`` of one part is that part, and a ``$ref`` stands alone. A map with free keys cannot be expressed.

    Source: OpenAI, "Structured model outputs", section "Supported schemas".
    """
    try:
        return _object(schema)
    except _Inexpressible:
        return None


class _Inexpressible(Exception):
    """Strict mode has no such thing."""


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if "allOf" in schema:
        if len(schema["allOf"]) != 1:
            raise _Inexpressible
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        return _object({**schema["allOf"][0], **rest})
    if "oneOf" in schema or "patternProperties" in schema:
        raise _Inexpressible
    out: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _MAPS:
            out[name] = {key: _object(part) for key, part in value.items()}
        elif name in _LISTS:
            out[name] = [_object(part) for part in value]
        elif name == "items":
            out[name] = _object(value)
        elif name not in _DROPPED:
            out[name] = value
    if schema.get("type") == "object":
        if not isinstance(schema.get("additionalProperties", False), bool) or "properties" not in schema:
            raise _Inexpressible
        out |= {"required": list(schema["properties"]), "additionalProperties": False}
    return out


MOST_UNREAD: Final = 20
"""Rows without one of the words, none with, after which a judge is not asked for them any more."""
NOT_ASKED: Final = "Not asked:"
"""Begins the message of rows about which it was not asked."""

_MOST_TOLD: Final = 3
_LONGEST: Final = 30


class NoWord(JudgeUnparseable):
    """The reply is none of the words."""


@dataclass
class WordWatch:
    """The replies to one prompt by one judge. Its coroutines belong into one event loop.

    Attributes:
        words: The words that are asked for.
    """

    words: Sequence[str]
    _read: bool = field(default=False, repr=False)
    _asking: int = field(default=0, repr=False)
    _unread: int = field(default=0, repr=False)
    _said: Counter[str] = field(default_factory=Counter, repr=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, repr=False)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until one more row may be asked about, and ask inside.

        Raises:
            JudgeUnparseable: It makes no sense to ask about it.
        """
        if self._read:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._read or self._stopped or self._has_place)
            if self._stopped:
                raise self._refusal()
            self._asking += 1
        try:
            yield
        except NoWord:
            self._unread += 1
            raise
        finally:
            self._asking -= 1
            async with self._changed:
                self._changed.notify_all()

    def read(self, text: str) -> str:
        """Return the word of a reply.

        Args:
            text: The reply.

        Raises:
            NoWord: There is none.
        """
        try:
            word = read_word(text, self.words)
        except JudgeUnparseable as error:
            self._said[_short(text)] += 1
            raise NoWord(error.message) from None
        self._read = True
        return word

    @property
    def _stopped(self) -> bool:
        return not self._read and self._unread >= MOST_UNREAD

    @property
    def _has_place(self) -> bool:
        return self._asking + self._unread < MOST_UNREAD

    def _refusal(self) -> JudgeUnparseable:
        told = [f'"{text}" ({times})' for text, times in self._said.most_common(_MOST_TOLD)]
        others = len(self._said) - len(told)
        told += [count(others, "other text")] if others else []
        return JudgeUnparseable(
            f"{NOT_ASKED} for {self._unread} rows no reply was {' or '.join(self.words)}. The replies hold "
            f"{listing(told)}."
        )


def _short(text: str) -> str:
    plain = " ".join(text.strip(" \t\r\n*_`\"'.!").lower().split())
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
