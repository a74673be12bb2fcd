"""Schemas of replies as providers want them that enforce them to the letter (OpenAI's "strict" structured output)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_DROPPED: Final = frozenset(
    {"default", "title", "minLength", "maxLength", "uniqueItems", "contentEncoding", "examples"}
)
"""Keywords that strict mode refuses or that tell a judge nothing; the parser checks what they say all the same."""

_LISTS: Final = ("anyOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")


_REMEMBERED: Final = 256
_formats: Final[dict[int, tuple[Mapping[str, Any], dict[str, Any]]]] = {}


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
