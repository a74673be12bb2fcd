"""Pydantic's validation errors in plain words: one line each, with the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from leadline.evaluators.ground.text import count

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

LONGEST: Final = 80
"""Characters of a value that are shown."""

_SECRETIVE: Final = re.compile(r"key|secret|token|pass|auth|header|url|base", re.IGNORECASE)
"""Names of fields whose values could hold a secret, even in the wrong place, and are not shown."""

_BOUNDS: Final = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "mapping": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
}
_LENGTHS: Final = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}


def refusals_of(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Return one text per fault: ``field: why``, without a full stop.

    Args:
        error: What Pydantic raised.
        model: The model that was filled in, whose fields are suggested where one is misspelt.
    """
    return list(dict.fromkeys(_line(fault, model) for fault in error.errors()))


def first_refusal(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the first of :func:`refusals_of`.

    Args:
        error: The error that Pydantic raised.
        model: The model that was filled in, for suggestions; ``None`` when it is not known.
    """
    return refusals_of(error, model)[0]


def field_of(fault: ErrorDetails, model: type[BaseModel] | None = None) -> str:
    """Return which field a fault is about, with points between the levels; ``""`` for the model itself.

    Args:
        fault: One of the faults that Pydantic found.
        model: The model that was filled in; ``None`` when it is not known.
    """
    return ".".join(str(part) for part in _place(fault["loc"], model))


def why(fault: ErrorDetails, model: type[BaseModel] | None = None) -> str:
    """Return why a value was refused; values that may be secret are not shown.

    Args:
        fault: One of the faults that Pydantic found.
        model: The model that was filled in.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return fault["msg"].partition(", ")[2] or fault["msg"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return _no_such_field(fault, model)
    value = "the value" if _SECRETIVE.search(str(fault["loc"])) else _shown(fault["input"])
    if kind in ("enum", "literal_error"):
        return f"{value} is none of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return f"{value} is not of the form {context['pattern']}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{value} is not allowed; it must be {words} {context[bound]:g}"
    words, bound = next((pair for end, pair in _LENGTHS.items() if kind.endswith(end)), ("", ""))
    if words:
        what = "character" if kind.startswith("string") else "item"
        return f"{value} is not allowed; it must have {words} {count(context[bound], what)}"
    stem = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    if stem in _KINDS:
        return f"{value} is not {_KINDS[stem]}"
    return f"{value} is not allowed ({fault['msg'][:1].lower()}{fault['msg'][1:]})"


def _line(fault: ErrorDetails, model: type[BaseModel] | None) -> str:
    field = field_of(fault, model)
    said = why(fault, model)
    if fault["type"] == "missing":
        return f"{field} {said}"
    return f"{field}: {said}" if field else said


def _no_such_field(fault: ErrorDetails, model: type[BaseModel] | None) -> str:
    known = _fields(model, fault["loc"][:-1])
    if not known:
        return "there is no such field"
    near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
    if near:
        return f"there is no such field; did you mean {near[0]}?"
    return f"there is no such field; there are {', '.join(sorted(known))}"


def _place(loc: Sequence[int | str], model: type[BaseModel] | None) -> list[int | str]:
    """Return where a fault is, without the alternatives of a union, which Pydantic names like levels."""
    place: list[int | str] = []
    level: Any = model
    for part in loc:
        if level is not None and place and not _models_in(level) and _is_alternative(part, level):
            continue
        place.append(part)
        level = _below(level, part)
    return place


def _is_alternative(part: int | str, level: Any) -> bool:
    alternatives = get_args(level) if get_origin(level) in (Union, types.UnionType) else ()
    return any(str(part).partition("[")[0] == getattr(each, "__name__", "") for each in alternatives)


def _fields(model: type[BaseModel] | None, loc: Sequence[int | str]) -> list[str]:
    level: Any = model
    for part in loc:
        level = _below(level, part)
    return [name for each in _models_in(level) for name in each.model_fields]


def _below(level: Any, part: int | str) -> Any:
    """Return the type of a field of a model, of the values of a mapping, or of the items of a list."""
    for each in _models_in(level):
        if part in each.model_fields:
            return each.model_fields[str(part)].annotation
    inner = get_args(level)
    return inner[-1] if inner and isinstance(get_origin(level), type) else None


def _models_in(level: Any) -> list[type[BaseModel]]:
    from pydantic import BaseModel

    alternatives = get_args(level) if get_origin(level) in (Union, types.UnionType) else (level,)
    return [each for each in alternatives if isinstance(each, type) and issubclass(each, BaseModel)]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    try:
        text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else f"'{value}'"
    except (TypeError, ValueError):
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
