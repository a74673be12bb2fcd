"""JSON Schema: has the answer the form that a schema asks for, and if not, where? Validation is bounded.

Schemas come with the data, so they may be hostile: patterns that never end, references to the web or to themselves,
``allOf`` that doubles a thousand times. Every keyword looks at the clock before it works.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import orjson
from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import count, need_packages
from leadline.evaluators.structured._json_answers import Where, identity_of, parse_answer
from leadline.evaluators.text.conditions.patterns import PatternError, search

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Details, LabelValues


_MOST_ERRORS: Final = 1000
"""Errors of an answer that are counted."""

_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DEADLINE: ContextVar[float] = ContextVar("deadline")
KEY: Final = "json_schema"
"""Key of a row's metadata that holds its schema."""

SHOWN: Final = 20
"""Errors that the evidence of a row lists."""

_PLACE: Final = re.compile(r"\[\d+\]")


class SchemaFault(ValueError):
    """A schema that is none, or that needs what is not there."""


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One place where an answer is not what its schema asks for.

    Attributes:
        path: The place, as in ``$.items[2].price``.
        keyword: The schema's keyword, such as ``required``.
        message: What is wrong.
    """

    path: str
    keyword: str
    message: str


def errors_of(value: Any, schema: str, seconds: float) -> list[SchemaError]:
    """Return where a value does not satisfy a schema, sorted by place; at most :data:`_MOST_ERRORS`.

    Args:
        value: The value of an answer.
        schema: The schema, as JSON.
        seconds: How long it may take.

    Raises:
        SchemaFault: The schema is none, refers to something that is not in it, or to itself without end.
        TimeoutError: It took longer.
    """
    from referencing.exceptions import Unresolvable

    token = _DEADLINE.set(time.monotonic() + seconds)
    try:
        errors = islice(_validator(schema).iter_errors(value), _MOST_ERRORS)
        found = [SchemaError(_path(one.absolute_path), str(one.validator), one.message[:300]) for one in errors]
    except Unresolvable as error:
        raise SchemaFault(f"it refers to {str(getattr(error, 'ref', error))[:200]}, which is not in it") from None
    except PatternError as error:
        raise SchemaFault(str(error)) from None
    except RecursionError:
        raise SchemaFault("it refers to itself without end, or is nested too deep") from None
    finally:
        _DEADLINE.reset(token)
    return sorted(found, key=lambda error: (error.path, error.keyword, error.message))


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
    fault = next(kind(kind.META_SCHEMA, registry=_own_documents()).iter_errors(schema), None)
    if fault is not None:
        raise SchemaFault(f"it is no JSON Schema at {_path(fault.absolute_path)}: {fault.message[:200]}")
    return kind(schema, registry=_own_documents())


def _kind_of(schema: Any) -> Any:
    from jsonschema.validators import validator_for

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
    from jsonschema.validators import extend, validator_for

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


@cache
def _own_documents() -> Any:
    """Return the drafts' own schemas, and nothing that would fetch another."""
    from jsonschema_specifications import REGISTRY

    return REGISTRY


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
    from jsonschema.exceptions import ValidationError

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
    from jsonschema.exceptions import ValidationError

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
    from jsonschema.exceptions import ValidationError

    if wanted and validator.is_type(instance, "array") and len(set(map(identity_of, instance))) < len(instance):
        yield ValidationError("the array has equal items")


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Compare numbers as they are written: 19.99 is a multiple of 0.01, though no two floats say so."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(divisor)):
        yield ValidationError(f"{instance} is not a multiple of {divisor}")


def _path(parts: Any) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


class JsonSchemaParams(Params):
    """Parameters of json_schema."""

    json_schema: Annotated[
        dict[str, Any] | None,
        Field(
            description="The schema of all answers, as JSON. A row's own, in its metadata under the key json_schema, "
            "goes before it."
        ),
    ] = None
    where: Annotated[
        Where,
        Field(
            description="Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), "
            "anywhere (in the midst of prose too)."
        ),
    ] = "fenced"
    timeout_s: Annotated[float, Field(gt=0, le=60, description="Seconds that an answer may be checked.")] = 2.0


@register
class JsonSchema(RowEvaluator):
    """Checks the answer's JSON against a JSON Schema, and says at which paths it is wrong.

    **Method.** The schema is given once (``--param 'json_schema.json_schema={"type": "object", …}'``) or stands in a
    row's metadata under the key ``json_schema``, as an object or as text, for example in a column of that name. The
    JSON of the answer is read as by ``json_valid``, by default also from a fence of Markdown, and validated by the
    draft that the schema names in ``$schema`` (2020-12 where it names none; 3 to 2019-09 are known). ``json_schema``
    is the share of answers without an error; ``errors_per_answer`` counts errors, an answer that is no JSON as one.
    Each error is told by its path, such as ``$.items[2].price``; the report adds them up by path.

    **Edge cases.**

    * A row without a schema is not applicable. A row whose schema is none is unscored, and says what is wrong with it.
    * Nothing is fetched: a ``$ref`` to something outside the schema makes the row unscored, apart from the drafts' own.
    * ``format`` is a note and not checked, as in the standard.
    * Schemas and patterns are bounded in time (``timeout_s``): a row that takes longer is unscored (``timeout``). A
      schema that has both ``unevaluatedProperties`` and ``patternProperties`` is refused for that.
    * At most 1,000 errors of an answer are counted.

    **Source.** JSON Schema, draft 2020-12; validated by the package jsonschema.
    """

    spec = Spec(
        id="json_schema",
        name="JSON Schema",
        family="structured",
        origin="leadline",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metadata=(KEY,),
        packages=("jsonschema",),
        metrics=(
            Metric.higher(
                "json_schema",
                "Share of answers that are JSON of the form that the schema asks for.",
                name="Satisfies the schema",
                primary=True,
                share=True,
            ),
            Metric.lower(
                "errors_per_answer",
                "Errors against the schema, per answer that has one.",
                name="Schema errors per answer",
                range=(0.0, float(_MOST_ERRORS)),
                threshold=None,
                dataset_level=True,
            ),
        ),
        version="2",
        keywords=("rule-based", "json", "schema", "structured output", "validation"),
        source="https://json-schema.org/specification",
    )
    parameters = JsonSchemaParams
    params: JsonSchemaParams

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Check rows.

        Raises:
            UsageError: The package jsonschema is not installed.
        """
        if rows:
            need_packages(self.spec.id, self.spec.packages)
        return super().score(rows, ctx)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Check one answer."""
        schema = self._schema(row)
        if not schema:
            message = "There is no schema: give json_schema.json_schema, or a column json_schema."
            return RowScore.not_applicable(self.row_metrics, message)
        parsed = parse_answer(row.actual_answer or "", self.params.where)
        if parsed.fault:
            return self._scored([{"path": "$", "keyword": "json", "message": f"no JSON: {parsed.fault}"}])
        try:
            with ctx.regex_budget.waiting(schema) as seconds:
                errors = errors_of(parsed.value, schema, min(seconds, self.params.timeout_s))
        except SchemaFault as fault:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The schema cannot be used: {fault}.")
        return self._scored([{"path": one.path, "keyword": one.keyword, "message": one.message} for one in errors])

    def _schema(self, row: Row) -> str:
        own = row.metadata.get(KEY)
        if isinstance(own, str) and own.strip():
            return own
        given = self.params.json_schema if own is None or own == "" else own
        return "" if given is None else orjson.dumps(given, option=orjson.OPT_SORT_KEYS).decode()

    def _scored(self, errors: Sequence[Mapping[str, str]]) -> RowScore:
        message = ""
        if errors:
            first = errors[0]
            message = f"{count(len(errors), 'error')}; {first['path']}: {first['message']}."
        places: list[Json] = [[path, n] for path, n in Counter(_place(error) for error in errors).most_common(SHOWN)]
        data: dict[str, Json] = {"errors": list(errors[:SHOWN])} if errors else {}
        payload: dict[str, Json] = {"errors": len(errors), "places": places}
        return RowScore({"json_schema": float(not errors)}, Evidence(message, data=data), payload=payload)

    def aggregate(self, payloads: Any, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the mean number of errors."""
        errors = np.array([payload["errors"] for payload in payloads], dtype=np.float64)
        return {"errors_per_answer": weights @ errors / np.maximum(weights.sum(axis=1), 1e-300)}

    def details(self, prepared: Any, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details | None:
        """Return how many errors there are at each path, items of an array taken together."""
        found: Counter[tuple[str, str]] = Counter()
        for payload, times in zip(prepared, weights.tolist(), strict=True):
            for place, n in payload["places"]:
                path, _, keyword = place.rpartition(" ")
                found[path, keyword] += int(n * times)
        labels: list[LabelValues] = [
            {"key": path, "value": keyword, "values": {"errors": n}} for (path, keyword), n in found.most_common(200)
        ]
        return {"labels": labels} if labels else None


def _place(error: Mapping[str, str]) -> str:
    """Return a path, without which item of an array it is, and the keyword."""
    return f"{_PLACE.sub('[*]', error['path'])} {error['keyword']}"
