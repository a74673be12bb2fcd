"""Dialects: the names that an instrumentation has for what a span says, in a table of TOML for each (dialects/)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from leadline.plugins.traces.span import Kind

Field: TypeAlias = Literal[
    "name", "model", "system", "inputs", "outputs", "call_id", "arguments", "result", "documents", "tools", "transfer",
    "input_tokens", "output_tokens", "cost_usd", "error", "elsewhere", "annotations", "metadata",
]  # fmt: skip
"""What a span says.

``system`` are instructions that stand apart from the messages, ``elsewhere`` tells where the content is if it is not
here, and ``transfer`` whether control is passed on. Of ``annotations`` and ``metadata`` all are kept, of anything else
the first.
"""

Names: TypeAlias = Mapping[Field, tuple[str, ...]]


class Dialect(BaseModel):
    """A dialect; a name that ends in ``.N`` stands for all names that go on with numbers, which make a list.

    Attributes:
        kinds: Attributes that tell what a span is: for each kind their values in small letters, ``*`` for any.
        fields: The attributes that hold what a span says, the most telling first.
        of_kind: Such attributes of spans of one kind, which count before those of any kind.
        sessions: Attributes that name the conversation; of ``metadata`` and ``*.`` those members that name a thread.
        merged: Events whose attributes are those of their span.
        collected: Events that each are an element of a list, with the attribute that the list becomes.
        elements: The members of such an element, each with its attribute; those of other events are messages.
        joined: An attribute made of others: the members of a message of the assistant, each with its attribute.
        renamed: Members of numbered attributes that messages have under other names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: Mapping[str, Mapping[Kind, tuple[str, ...]]] = {}
    fields: Names = {}
    of_kind: Mapping[Kind, Names] = {}
    sessions: tuple[str, ...] = ()
    merged: frozenset[str] = frozenset()
    collected: Mapping[str, str] = {}
    elements: Mapping[str, Mapping[str, str]] = {}
    joined: Mapping[str, Mapping[str, str]] = {}
    renamed: Mapping[str, str] = {}


def _read(name: str) -> Dialect:
    table = Path(__file__).with_name("dialects") / f"{name}.toml"
    return Dialect.model_validate(tomllib.loads(table.read_text(encoding="utf-8")))


DIALECTS: Final = tuple(map(_read, ("genai", "openinference", "vercel", "openllmetry", "logfire", "untold")))
"""Those that are known, in the order in which they are asked."""
