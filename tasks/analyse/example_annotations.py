"""Filling in the examples of an evaluator's details: the annotations and the size of the items that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from leadline.evaluators.core.annotations import Annotation
from leadline.evaluators.core.details import MOST_EXAMPLES, MOST_SHOWN, Details, Example
from leadline.tasks.db.connection import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LARGEST: Final = 1e6
"""Pixels along a side."""


def fill_examples(connection: DuckDBPyConnection, model_id: int, details: Details) -> Details:
    """Return details whose examples hold their annotations and the size of their item.

    Args:
        connection: A connection that shows the dataset's views.
        model_id: The model.
        details: What an evaluator said; its examples may name annotations by their positions in the row's lists.
    """
    examples = details.get("examples", ())[:MOST_EXAMPLES]
    if not examples:
        return details
    cases = list(dict.fromkeys(example["case"] for example in examples))
    lines = connection.execute(sql("aggregate/example_rows"), {"cases": cases, "model_id": model_id}).fetchall()
    rows = {case: rest for case, *rest in lines}
    filled = [_filled(example, *rows.get(example["case"], (None, None, None, None))) for example in examples]
    return {**details, "examples": filled}


def _filled(
    example: Example, expected: str | None, predicted: str | None, case_metadata: str | None, row_metadata: str | None
) -> Example:
    out: Example = {
        **example,
        "expected": _annotations(example.get("expected", ()), expected),
        "predicted": _annotations(example.get("predicted", ()), predicted),
    }
    size = _size(*(orjson.loads(text) for text in (case_metadata, row_metadata) if text))
    if size:
        out["size"] = size
    return out


def _annotations(named: Sequence[Annotation | int], text: str | None) -> list[Annotation | int]:
    """Return annotations in place of positions in a row's list; a position that there is none of is left out."""
    listed = cast("list[Annotation]", orjson.loads(text)) if text and any(type(one) is int for one in named) else []
    found = [listed[one] if type(one) is int else one for one in named if type(one) is not int or one < len(listed)]
    return found[:MOST_SHOWN]


def _size(*metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return width and height of an item, where its metadata says so in numbers that can be drawn."""
    said: dict[str, Any] = {}
    for one in metadata:
        said |= one
    width, height = said.get("width"), said.get("height")
    if not isinstance(width, int | float) or not isinstance(height, int | float):
        return None
    return (width, height) if 0 < width <= _LARGEST and 0 < height <= _LARGEST else None
