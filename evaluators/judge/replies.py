"""Reading a judge's reply: strictly, or not at all.

A reply that does not hold exactly what was asked for is a :class:`JudgeUnparseable`, never a guess: no first digit
of a sentence, no word inside another word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from leadline.evaluators.judge.engine.failures import JudgeUnparseable

M = TypeVar("M", bound=BaseModel)

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def read_json(text: str, kind: type[M]) -> M:
    """Return the one JSON object in a reply, alone, in a code block, or with prose around it.

    Args:
        text: The reply.
        kind: The model that the object must fit.

    Raises:
        JudgeUnparseable: There is none, there are several, or it does not fit.
    """
    try:
        return kind.model_validate(_only_object(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise JudgeUnparseable(f"The reply's JSON does not fit: {where}: {first['msg']}.") from error


def _only_object(text: str) -> dict[str, Any]:
    source = _out_of_block(text)
    start = source.find("{")
    if start < 0:
        raise JudgeUnparseable("The reply holds no JSON object.")
    try:
        value, end = _DECODER.raw_decode(source, start)
    except json.JSONDecodeError as error:
        raise JudgeUnparseable(f"The reply's JSON is broken: {error.msg}.") from None
    except (ValueError, RecursionError) as error:  # NaN, a number of 5,000 digits, a tower of brackets
        raise JudgeUnparseable(f"The reply's JSON cannot be read: {str(error)[:100]}.") from None
    if "{" in source[end:]:
        raise JudgeUnparseable("The reply holds more than one JSON object.")
    if not isinstance(value, dict):
        raise JudgeUnparseable("The reply's JSON is no object.")
    return value


def _out_of_block(text: str) -> str:
    """Return what stands in a reply's code block, if the reply is one."""
    stripped = text.strip()
    if not (stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped):
        return stripped
    return stripped[:-3].split("\n", 1)[1]


def read_word(text: str, words: Sequence[str]) -> str:
    """Return the one of the given words that stands in a reply as a word, in any case.

    Where one word is part of another ("correct", "partly correct"), the longer one counts alone.

    Args:
        text: The reply.
        words: The words to choose from, different from each other in lower case.

    Raises:
        JudgeUnparseable: None of them stands there, or several do.
    """
    known = {word.lower(): word for word in words}
    either = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    found = {match.group() for match in re.finditer(rf"(?<![\w-])(?:{either})(?![\w-])", text.lower())}
    if len(found) != 1:
        listed = "none" if not found else " and ".join(sorted(found))
        raise JudgeUnparseable(f"The reply must hold exactly one of {', '.join(words)}; it holds {listed}.")
    return known[found.pop()]


def read_number(text: str, low: float, high: float) -> float:
    """Return the number that a reply consists of.

    Args:
        text: The reply.
        low: Least number allowed.
        high: Greatest number allowed.

    Raises:
        JudgeUnparseable: The reply is more than one number, none, or one out of range.
    """
    plain = text.strip().rstrip(".")
    if not _NUMBER.fullmatch(plain):
        raise JudgeUnparseable("The reply is not a number.")
    value = float(plain)
    if not low <= value <= high:
        raise JudgeUnparseable(f"The reply's number {value:g} is not between {low:g} and {high:g}.")
    return value
