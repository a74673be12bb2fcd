"""Errors against a JSON Schema, found by the package jsonschema in bounded time.

Schemas come with the data, so they may be hostile: patterns that never end, references to the web or to themselves,
``allOf`` that doubles a thousand times. Every keyword looks at the clock before it works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY  # the drafts' own schemas, and nothing that would fetch another
from referencing.exceptions import Unresolvable

from leadline.evaluators.structured.json_valid import identity_of, parse_answer
from leadline.evaluators.text.patterns import PatternError, search

_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DEADLINE: ContextVar[float] = ContextVar("deadline")


class SchemaFault(ValueError):
    """A schema that is none, or that needs what is not there."""


def errors_of(value: Any, schema: str, seconds: float, most: int) -> list[dict[str, str]]:
    """Return where a value does not satisfy a schema, sorted by place.

    Each error has the ``path`` of the place, as in ``$.items[2].price``, the schema's ``keyword``, such as
    ``required``, and the ``message`` what is wrong.

    Args:
        value: The value of an answer.
        schema: The schema, as JSON.
        seconds: How long it may take.
        most: Errors that are looked for.

    Raises:
        SchemaFault: The schema is none, refers to something that is not in it, or to itself without end.
        TimeoutError: It took longer.
    """
    token = _DEADLINE.set(time.monotonic() + seconds)
    try:
        found = [
            (_path(error.absolute_path), str(error.validator), error.message[:300])
            for error in islice(_validator(schema).iter_errors(value), most)
        ]
    except Unresolvable as error:
        raise SchemaFault(f"it refers to {str(getattr(error, 'ref', error))[:200]}, which is not in it") from None
    except PatternError as error:
        raise SchemaFault(str(error)) from None
    except RecursionError:
        raise SchemaFault("it refers to itself without end, or is nested too deep") from None
    finally:
        _DEADLINE.reset(token)
    return [dict(zip(("path", "keyword", "message"), error, strict=True)) for error in sorted(found)]


@lru_cache(maxsize=256)
def _validator(text: str) -> Any:
    """Return what checks values against a schema; the schemas of the last rows are remembered."""
    parsed = parse_answer(text, "whole")
    if parsed.fault:
        raise SchemaFault(f"it is no JSON: {parsed.fault}")
    schema = parsed.value
    if _holds(schema, "unevaluatedProperties") and _holds(schema, "patternProperties"):
        raise SchemaFault("it has both unevaluatedProperties and patternProperties, which takes unbounded time")
    kind = _kind_of(schema)
    fault = next(kind(kind.META_SCHEMA, registry=REGISTRY).iter_errors(schema), None)
    if fault is not None:
        raise SchemaFault(f"it is no JSON Schema at {_path(fault.absolute_path)}: {fault.message[:200]}")
    return kind(schema, registry=REGISTRY)


def _kind_of(schema: Any) -> Any:
    named = schema.get("$schema", _NEWEST) if isinstance(schema, Mapping) else _NEWEST
    kind = validator_for({"$schema": named}, default=None) if isinstance(named, str) else None
    if kind is None:
        raise SchemaFault(f"its $schema is {str(named)[:200]!r}, which is no draft of JSON Schema")
    return _bounded(kind.META_SCHEMA.get("$schema", _NEWEST))


def _holds(schema: Any, keyword: str) -> bool:
    """Return whether a member of that name is anywhere in a schema."""
    if isinstance(schema, Mapping):
        return keyword in schema or any(_holds(item, keyword) for item in schema.values())
    return isinstance(schema, list) and any(_holds(item, keyword) for item in schema)


@cache
def _bounded(draft: str) -> Any:
    """Return the validator of a draft, every keyword of which minds the time."""
    kind = validator_for({"$schema": draft})
    own = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
        "divisibleBy": _multiple_of,
    }
    own = {name: keyword for name, keyword in own.items() if name in kind.VALIDATORS}
    keywords = {**kind.VALIDATORS, **own}
    return extend(kind, {name: _timed(keyword) for name, keyword in keywords.items()})


def _timed(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _seconds_left()
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _seconds_left() -> float:
    left = _DEADLINE.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("checking the answer against its schema took too long")
    return left


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and search(pattern, instance, _seconds_left()) is None:
        yield ValidationError(f"{instance[:100]!r} does not match {pattern[:100]!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, item in instance.items():
            if search(pattern, name, _seconds_left()) is not None:
                yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, others: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    patterns = schema.get("patternProperties", {})
    for name, item in instance.items():
        if name in schema.get("properties", {}) or any(search(each, name, _seconds_left()) for each in patterns):
            continue
        if others is False:
            yield ValidationError(f"{name[:100]!r} is not allowed here", path=[name])
        else:
            yield from validator.descend(item, others, path=name)


def _unique_items(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[Any]:
    if wanted and validator.is_type(instance, "array") and len(set(map(identity_of, instance))) < len(instance):
        yield ValidationError("the array has equal items")


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Compare numbers as they are written: 19.99 is a multiple of 0.01, though no two floats say so."""
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(divisor)):
        yield ValidationError(f"{instance} is not a multiple of {divisor}")


def _path(parts: Any) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
