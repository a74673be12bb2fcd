"""A dialect: the names that an instrumentation has for what a span says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from leadline.plugins.traces.span import Kind

Field: TypeAlias = Literal[
    "name",
    "model",
    "system",
    "inputs",
    "outputs",
    "call_id",
    "arguments",
    "result",
    "documents",
    "tools",
    "transfer",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "error",
    "elsewhere",
    "annotations",
    "metadata",
]
"""What a span says.

``system`` are instructions that stand apart from the messages, ``elsewhere`` tells where the content is if it is not
here, and ``transfer`` whether control is passed on. Of ``annotations`` and ``metadata`` all are kept, of anything else
the first.
"""

Names: TypeAlias = Mapping[Field, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect; a name that ends in ``.N`` stands for all names that go on with numbers, which make a list.

    Attributes:
        kinds: Attributes that tell what a span is, with their values in small letters, ``*`` for any.
        fields: The attributes that hold what a span says, the most telling first.
        of_kind: Such attributes of spans of one kind, which count before those of any kind.
        sessions: Attributes that name the conversation; of ``metadata`` and ``*.`` those members that name a thread.
        merged: Events whose attributes are those of their span.
        collected: Events that each are an element of a list: the attribute that the list becomes, and how an event's
            name and attributes are read.
        joined: An attribute made of others: the members of a message of the assistant, each with its attribute.
        renamed: Members of numbered attributes that messages have under other names.
    """

    kinds: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    fields: Names = field(default_factory=dict)
    of_kind: Mapping[Kind, Names] = field(default_factory=dict)
    sessions: Sequence[str] = ()
    merged: frozenset[str] = frozenset()
    collected: Mapping[str, tuple[str, Callable[[str, Mapping[str, Any]], Any]]] = field(default_factory=dict)
    joined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
