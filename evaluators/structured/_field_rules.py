"""Rules by which a field of an answer is compared with the expected one: exact, number, date, set, text, ignore."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.evaluators.structured._json_answers import identity_of
from leadline.evaluators.text.quantities import Quantity, quantities

RuleName: TypeAlias = Literal["exact", "number", "date", "set", "text", "ignore"]

LONGEST_DATE: Final = 64
LONGEST_TEXT: Final = 100_000
_ISO: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ].*)?", re.ASCII)
_ANY_DAYS: Final = (datetime(2000, 1, 1), datetime(2003, 5, 17))  # noqa: DTZ001 - calendar days have no zone
"""What stands in for parts that a date leaves out; a text that gives another day with each says no day."""


class FieldRule(BaseModel):
    """One rule, as a user gives it: its name alone, or an object with the settings below."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: RuleName
    relative: Annotated[
        float | None, Field(ge=0, lt=1, description="Of number: tolerance, a share of the expected.")
    ] = None
    absolute: Annotated[float, Field(ge=0, description="Of number: tolerance as a number.")] = 0.0
    similarity: Annotated[float, Field(gt=0, le=1, description="Of text: least similarity that is right.")] = 0.8
    day_first: Annotated[bool, Field(description="Of date: 3/4/2024 is the 3rd of April.")] = False
    weight: Annotated[float, Field(gt=0, description="How much the field counts.")] = 1.0

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"rule": given} if isinstance(given, str) else given

    def holds(self, answer: Any, expected: Any) -> bool:
        """Return whether a value of the answer is right.

        Args:
            answer: The value that the answer has.
            expected: The value that it should have.
        """
        return _RULES[self.rule](self, answer, expected)


def _exact(rule: FieldRule, answer: Any, expected: Any) -> bool:
    return bool(identity_of(answer) == identity_of(expected))


def _number(rule: FieldRule, answer: Any, expected: Any) -> bool:
    ours, theirs = _as_number(answer), _as_number(expected)
    if ours is None or theirs is None:
        return _exact(rule, answer, expected)
    return ours.within(theirs, relative=rule.relative, absolute=rule.absolute, units=True)


def _as_number(value: Any) -> Quantity | None:
    """Return a number, also one that is written as text with nothing else; ``None`` for anything else."""
    if isinstance(value, str):
        found = list(quantities(value[:100]))
        alone = len(found) == 1 and value[: found[0].start].strip() == "" == value[found[0].end :].strip()
        return found[0] if alone and len(value) <= 100 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Quantity(float(value), whole=int(value) if value == value // 1 else None)


def _date(rule: FieldRule, answer: Any, expected: Any) -> bool:
    theirs = _as_day(expected, rule.day_first)
    if theirs is None:
        return _exact(rule, answer, expected)
    return _as_day(answer, rule.day_first) == theirs


def _as_day(value: Any, day_first: bool) -> date | None:
    """Return the calendar day that a text says in full, ``None`` for anything else."""
    if not isinstance(value, str) or len(value) > LONGEST_DATE:
        return None
    iso = _ISO.fullmatch(value.strip())
    try:
        return date.fromisoformat(iso[1]) if iso else _spoken_day(value, day_first)
    except ValueError:
        return None


def _spoken_day(value: str, day_first: bool) -> date | None:
    from dateutil.parser import parse

    try:
        days = {parse(value, dayfirst=day_first, default=default).date() for default in _ANY_DAYS}
    except (ValueError, OverflowError, TypeError):
        return None
    return days.pop() if len(days) == 1 else None


def _set(rule: FieldRule, answer: Any, expected: Any) -> bool:
    if not isinstance(answer, list) or not isinstance(expected, list):
        return _exact(rule, answer, expected)
    return set(map(identity_of, answer)) == set(map(identity_of, expected))


def _text(rule: FieldRule, answer: Any, expected: Any) -> bool:
    if not isinstance(answer, str) or not isinstance(expected, str):
        return _exact(rule, answer, expected)
    from rapidfuzz.distance import Levenshtein

    ours, theirs = (" ".join(text.split()).casefold()[:LONGEST_TEXT] for text in (answer, expected))
    return Levenshtein.normalized_similarity(ours, theirs) >= rule.similarity


def _ignore(rule: FieldRule, answer: Any, expected: Any) -> bool:
    return True


_RULES: Final[Mapping[str, Callable[[FieldRule, Any, Any], bool]]] = {
    "exact": _exact,
    "number": _number,
    "date": _date,
    "set": _set,
    "text": _text,
    "ignore": _ignore,
}
