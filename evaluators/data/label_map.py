"""A parameter that maps labels to labels.

It stands apart from the annotations, which light commands import as well: it needs Pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from leadline.evaluators.data.annotations import DEFAULT_KEY, LabelName


def _read(given: Any) -> Any:
    """Bring what users write into pairs of (key, value): ``{"siamese": "cat"}`` or ``[[[k, v], [k, v]], …]``."""
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        return tuple(sorted({_name(old): _name(new) for old, new in pairs}.items()))
    except (TypeError, ValueError):
        raise ValueError('expected an object such as {"siamese": "cat", "class_name:tabby": "class:cat"}') from None


def _name(label: Any) -> LabelName:
    if isinstance(label, str):
        key, colon, value = label.partition(":")
        return (key, value) if colon else (DEFAULT_KEY, label)
    key, value = label
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError
    return key, value


LabelMap: TypeAlias = Annotated[
    tuple[tuple[LabelName, LabelName], ...],
    BeforeValidator(_read),
    Field(
        description='Labels that count as another, on both sides: {"siamese": "cat"}. A label of another key than '
        '"class" is written "key:value", or as the pair ["key", "value"] in a list of pairs.'
    ),
]
"""A parameter that maps labels to labels; what is not named stays as it is."""
