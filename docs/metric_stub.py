"""The text of ``leadline/metrics.pyi``: what editors know of the evaluators and their parameters."""

from __future__ import annotations

import inspect
import textwrap
import types
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from leadline.evaluators.core import Evaluator, all_evaluators

_WIDTH: Final = 116
_LONGEST_DEFAULT: Final = 60


def stub_values() -> dict[str, Any]:
    """Return what the template of the stub takes: the evaluators with plain ids, and the others by their prefix."""
    alone: list[dict[str, Any]] = []
    families: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for id_, kind in all_evaluators().items():
        if kind.__module__.startswith("leadline.evaluators."):
            family, _, name = id_.rpartition(".")
            (families[family] if family else alone).append(_values(kind, name, indent=8 if family else 4))
    return {"alone": alone, "families": dict(families)}


def _values(kind: type[Evaluator], name: str, *, indent: int) -> dict[str, Any]:
    fields = kind.parameters.model_fields
    parameters = [
        {
            "name": field_name,
            "type": type_text(field.annotation),
            "default": _default(field.get_default(call_default_factory=True)),
        }
        for field_name, field in fields.items()
    ]
    descriptions = {field_name: field.description or "" for field_name, field in fields.items()}
    return {"function": name, "parameters": parameters, "doc": _docstring(kind, descriptions, _WIDTH - indent)}


def _default(value: object) -> str:
    text = repr(value)
    return "..." if len(text) > _LONGEST_DEFAULT or "'" in text.strip("'") else text.replace("'", '"')


def _docstring(kind: type[Evaluator], descriptions: Mapping[str, str], width: int) -> str:
    summary = inspect.cleandoc(kind.__doc__ or kind.spec.name).partition("\n\n")[0].replace("\n", " ")
    args = {**descriptions, "name": "A name of its own, so that one run can have the evaluator several times."}
    lines = [*textwrap.wrap(f'"""{summary}', width), "", "Args:"]
    for name, text in args.items():
        lines += textwrap.wrap(f"{name}: {text}", width, initial_indent="    ", subsequent_indent="        ")
    return "\n".join([*lines, '"""']).replace("\\", "\\\\")


def type_text(annotation: Any) -> str:
    """Return a type as a stub writes it; a list may be given for a tuple, and a text or an object for a model."""
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "str | dict[str, Any]"
    if origin is Annotated:
        return type_text(args[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_text, args))
    if origin is Literal:
        return f"Literal[{', '.join(repr(arg) for arg in args)}]".replace("'", '"')
    if origin is tuple:
        return f"Sequence[{type_text(args[0])}]"
    if origin is dict:
        return f"dict[{', '.join(map(type_text, args))}]"
    if origin is list:
        return f"list[{type_text(args[0])}]"
    return "None" if annotation is type(None) else str(getattr(annotation, "__name__", annotation))
