"""Schemas in strict mode: those of all reply models, and the shapes that have traps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from leadline.evaluators.core import all_evaluators
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.judge_client.reply_parsing import response_format, strict_schema


class Part(BaseModel):
    """A part."""

    word: str = Field("", max_length=5)
    number: float | None = Field(None, ge=0, le=1)


class Whole(BaseModel):
    title: str
    parts: list[Part] = []
    one: Part = Part()


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all schemas of objects within a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def assert_strict(schema: dict[str, Any]) -> None:
    found = list(objects(schema))
    assert found
    for one in found:
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])


def replies() -> list[type[BaseModel]]:
    all_evaluators()  # so that all modules with reply models are imported
    waiting, found = [JudgeReply], []
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        found += [kind for kind in kinds if kind.model_fields and kind.__module__.startswith("leadline.evaluators.")]
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


@pytest.mark.parametrize("kind", replies(), ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_the_reply_of_every_judge_can_be_enforced(kind: type[BaseModel]) -> None:
    schema = strict_schema(kind.model_json_schema())
    assert schema is not None
    assert_strict(schema)


def test_objects_within_objects_are_strict_too_and_what_is_optional_must_be_said() -> None:
    schema = strict_schema(Whole.model_json_schema())
    assert schema is not None
    assert_strict(schema)
    assert schema["properties"]["one"] == {"$ref": "#/$defs/Part"}
    assert schema["properties"]["title"] == {"type": "string"}, "a property called title is no keyword"
    part = schema["$defs"]["Part"]
    assert part["required"] == ["word", "number"]
    assert part["properties"]["word"] == {"type": "string"}
    assert part["properties"]["number"]["anyOf"] == [{"minimum": 0, "maximum": 1, "type": "number"}, {"type": "null"}]


def test_a_map_with_free_keys_cannot_be_expressed_and_is_sent_as_it_is() -> None:
    class Free(BaseModel):
        scores: dict[str, float]

    assert strict_schema(Free.model_json_schema()) is None
    sent = response_format(Free.model_json_schema())
    assert sent["json_schema"] == {"name": "Free", "schema": Free.model_json_schema(), "strict": False}


def test_what_is_sent_is_strict() -> None:
    sent = response_format(Whole.model_json_schema())
    assert sent["json_schema"]["strict"] is True
    assert_strict(sent["json_schema"]["schema"])
