"""What evaluators send to a judge, and the names and signatures that others build on."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, Final
from unittest.mock import patch

import leadline
from leadline import metrics
from leadline.evaluators.core import all_evaluators
from leadline.testing import PLAIN
from tests.golden.plain import without_modules
from tests.support.judges.agreeable_judge import AgreeableJudge, tools_with

FENCE: Final = "0123456789abcdef"
PUBLIC: Final = ("leadline", "leadline.testing", "leadline.mlflow", "leadline.inspect")


@dataclass
class _NotingJudge(AgreeableJudge):
    """Agrees with everything, and keeps what it was sent."""

    sent: list[dict[str, Any]] = field(default_factory=list)

    async def send(
        self, config: Any, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Any:
        said = {message["role"]: message["content"].split("\n") for message in messages}
        self.sent.append(said | ({"schema": schema} if schema else {}))
        return await super().send(config, messages, schema, max_tokens)


def prompts() -> dict[str, list[dict[str, Any]]]:
    """Return what each evaluator sends to its judge about a row that has everything, line by line."""
    found = {}
    for id_, kind in _ours().items():
        judge = _NotingJudge()
        if kind.spec.judge:
            with patch("secrets.token_hex", return_value=FENCE):
                kind(kind.parameters.build(id_, {})).score([PLAIN], tools_with(judge))
            found[id_] = judge.sent
    return found


def public_names() -> dict[str, dict[str, Any]]:
    """Return what can be imported from each public module, and how it is called."""
    modules = {name: import_module(name) for name in PUBLIC}
    found = {name: {each: described(getattr(it, each)) for each in _names(it)} for name, it in modules.items()}
    return found | {"leadline.metrics": {id_: _parameters(attrgetter(id_)(metrics)) for id_ in _ours()}}


def described(thing: Any) -> Any:
    """Return the signature of a function, of a class with its methods, or what another thing is."""
    if not isinstance(thing, type):
        return _signature(thing) if callable(thing) else type(thing).__name__
    if issubclass(thing, enum.Enum):
        return [f"{each.name} = {each.value}" for each in thing]
    kinds = [kind for kind in reversed(thing.__mro__) if kind.__module__.startswith("leadline.")]
    own = {name: part for kind in kinds for name, part in vars(kind).items()}
    parts = {name: _member(part) for name, part in sorted(own.items()) if not name.startswith("_")}
    return {"call": _signature(thing), **parts}


def _ours() -> dict[str, type[leadline.Evaluator]]:
    """Return the evaluators that others have not brought."""
    return {id_: kind for id_, kind in sorted(all_evaluators().items()) if kind.spec.origin != "custom"}


def _names(module: Any) -> list[str]:
    """Return the names that a module offers: those that it lists, or that are defined in it."""
    if hasattr(module, "__all__"):
        return sorted(set(module.__all__) - {"__version__", "metrics"})
    own = [name for name, part in vars(module).items() if getattr(part, "__module__", "") == module.__name__]
    constants = [name for name in vars(module) if name.isupper()]
    return sorted(name for name in {*own, *constants} if not name.startswith("_"))


def _parameters(function: Any) -> list[str]:
    """Return parameters with their defaults; their types stand in ``metrics.pyi``."""
    found = inspect.signature(function).parameters.values()
    return [f"{parameter.name} = {parameter.default!r}" for parameter in found]


def _member(part: Any) -> str:
    part = part.__func__ if isinstance(part, classmethod | staticmethod) else part
    if inspect.isfunction(part):
        return _signature(part)
    return "property" if isinstance(part, property | cached_property) else "attribute"


def _signature(function: Any) -> str:
    """Return a signature without modules and without what callers must not pass."""
    try:
        found = inspect.signature(function)
    except ValueError:  # an exception that is made as all are
        return "(*args)"
    public = [parameter for parameter in found.parameters.values() if not parameter.name.startswith("_")]
    return without_modules(str(found.replace(parameters=public)))
