"""JSON validity: can a program read the answer? It stands alone, in a fence of Markdown, or in the midst of prose.

How an answer's JSON is read, and when two values are equal, is here for the other evaluators of JSON too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import orjson
from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore, Source, Span
from leadline.evaluators.text.markdown import fences

Where: TypeAlias = Annotated[
    Literal["whole", "fenced", "anywhere"],
    Field(
        description="Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), "
        "anywhere (in the midst of prose too)."
    ),
]

MOST_STARTS: Final = 20
"""Places in prose at which JSON is tried to be read."""

_START: Final = re.compile(r"[{\[]")


class JsonValidParams(Params):
    """Parameters of json_valid."""

    where: Where = "whole"
    kind: Annotated[
        Literal["any", "object", "array", "object_or_array"], Field(description="What the JSON value must be.")
    ] = "object_or_array"
    only_expected: Annotated[
        bool,
        Field(description="Look only at rows whose expected answer is JSON; so it is where nobody named json_valid."),
    ] = False


@register
class JsonValid(RowEvaluator):
    r"""Reads the answer as JSON.

    **Method.** The answer is parsed strictly by RFC 8259, and must be an object or an array (``kind`` can ask for
    something else). By default nothing but JSON may be there: a program that reads the answer would trip over prose
    or a fence of Markdown too. Where yours takes fences away, say ``where=fenced``; where it looks for the JSON in
    prose, ``where=anywhere``. The metric is the share of answers that are valid; the message says in which line and
    column reading stopped.

    **Edge cases.**

    * ``NaN``, trailing commas, comments and single quotes are no JSON; nor are numbers that no double can hold
      (``1e400``), half surrogates (``"\ud800"``), a byte order mark, and more than 1,024 levels: parsers differ there.
    * An object that has a key twice is valid, as in RFC 8259.
    * An empty answer is not valid.

    **Source.** RFC 8259, The JavaScript Object Notation (JSON) Data Interchange Format; parsed by orjson.
    """

    spec = Spec(
        id="json_valid",
        name="JSON Validity",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        metrics=(
            Metric.higher(
                "json_valid", "Share of answers that a strict parser of JSON reads.", name="Valid JSON", share=True
            ),
        ),
        suits=(DataKind.JSON,),
        keywords=("rule-based", "json", "parse", "is-json", "structured output"),
        source="https://www.rfc-editor.org/rfc/rfc8259",
    )
    parameters = JsonValidParams
    params: JsonValidParams
    unnamed: ClassVar[Mapping[str, Any]] = {"only_expected": True}

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Parse one answer."""
        if self.params.only_expected and not any(map(_is_json, row.expected_answers)):
            return RowScore.not_applicable(self.row_metrics, "The expected answer is no JSON.")
        answer = row.actual_answer or ""
        parsed = parse_answer(answer, self.params.where)
        if parsed.fault:
            at = max(0, min(parsed.at, len(answer) - 1))  # where the rest is missing, the last character
            place = (Span(Source.ACTUAL_ANSWER, at, at + 1, note="not JSON from here"),) if answer else ()
            return RowScore({"json_valid": 0.0}, Evidence(f"The answer is no JSON: {parsed.fault}.", place))
        kind = _kind_of(parsed.value)
        good = self.params.kind == "any" or kind in self.params.kind.split("_or_")
        message = "" if good else f"The answer is valid JSON, but of kind {kind}."
        return RowScore({"json_valid": float(good)}, Evidence(message))


def _is_json(expected: str) -> bool:
    return isinstance(parse_answer(expected, "whole").value, dict | list)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The JSON that an answer holds.

    Attributes:
        value: The value, ``None`` also where there is none.
        fault: Why there is none, ``""`` if there is.
        at: Where in the answer reading stopped.
    """

    value: Any = None
    fault: str = ""
    at: int = 0


def parse_answer(text: str, where: Where) -> Parsed:
    """Return the JSON of an answer.

    Args:
        text: The answer.
        where: ``whole``: the answer is nothing but JSON. ``fenced``: it may stand in a fence of Markdown, with or
            without prose around. ``anywhere``: besides, the first object or array that can be read from prose counts.
    """
    first = _parse(text, 0)
    if not first.fault or where == "whole":
        return first
    block = next(iter(fences(text)), None)
    if block:
        return _parse(block.content, block.start)
    return (_in_prose(text) if where == "anywhere" else None) or first


def _parse(text: str, start: int) -> Parsed:
    try:
        return Parsed(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        if not text.strip():
            return Parsed(fault="there is nothing", at=start)
        at = min(max(error.pos, 0), len(text))
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return Parsed(fault=f"{error.msg.partition(': line')[0]} (line {line}, column {column})", at=start + at)


def _in_prose(text: str) -> Parsed | None:
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for tried, found in enumerate(_START.finditer(text)):
        if tried == MOST_STARTS:
            return None
        try:
            _, end = decoder.raw_decode(text, found.start())
            return Parsed(orjson.loads(text[found.start() : end]))
        except (ValueError, RecursionError):
            continue
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _kind_of(value: Any) -> str:
    """Return what a JSON value is: object, array, string, number, boolean or null."""
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"


def is_deep(value: Any, levels: int) -> bool:
    """Return whether a JSON value has more than a number of levels of objects and arrays.

    Args:
        levels: That number.
    """
    here = [value]
    for _ in range(levels + 1):
        nested = [each for each in here if isinstance(each, dict | list)]
        here = [item for each in nested for item in (each.values() if isinstance(each, dict) else each)]
        if not nested:
            return False
    return True


def identity_of(value: Any) -> Any:
    """Return something hashable that two JSON values have in common only if they are equal.

    1 equals 1.0 and is not true, as JSON Schema has it; the order of an object's members does not count.
    """
    if isinstance(value, Mapping):
        return "object", frozenset((key, identity_of(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(identity_of, value))
    return ("boolean", value) if isinstance(value, bool) else value
