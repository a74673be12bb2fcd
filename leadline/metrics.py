"""Every evaluator by its name, with its parameters: ``leadline.metrics.bleu()``, ``leadline.metrics.valor.bias()``.

::

    leadline.evaluate(answers, metrics=[leadline.metrics.bleu(metric_threshold=0.4), "faithfulness"])

Editors read the names, parameters and types in ``metrics.pyi``, which ``make docs`` writes; notebooks ask the functions
themselves. A parameter that makes no sense is refused where it is written.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from leadline.evaluators import core as _core

if TYPE_CHECKING:
    from leadline.api.metric_choice import MetricChoice
    from leadline.evaluators.core import Evaluator


class _Family:
    """Evaluators whose ids begin alike, such as those of ``valor``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return _named(f"{self._prefix}.{name}")

    def __dir__(self) -> list[str]:
        return [id_.removeprefix(f"{self._prefix}.") for id_ in _ids() if id_.startswith(f"{self._prefix}.")]

    def __repr__(self) -> str:
        return f"<leadline.metrics.{self._prefix}: {', '.join(dir(self))}>"


def __getattr__(name: str) -> Any:
    return _named(name)


def __dir__() -> list[str]:
    return sorted({id_.partition(".")[0] for id_ in _ids()})


def _ids() -> list[str]:
    return list(_core.all_evaluators())


def _named(name: str) -> Any:
    """Return what stands under a name: the function that chooses an evaluator, or those of a family."""
    if name.startswith("_"):
        raise AttributeError(f"module 'leadline.metrics' has no attribute {name!r}")
    kind = _core.find(name)
    if kind is not None:
        choose = _choosing(kind)
        if _core.has_members(name):  # the index ragas, and the metrics of ragas itself
            vars(choose).update({member: _named(f"{name}.{member}") for member in dir(_Family(name))})
        return choose
    if "." not in name and any(id_.startswith(f"{name}.") for id_ in _ids()):
        return _Family(name)
    near = difflib.get_close_matches(name, _ids(), n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"there is no evaluator called {name!r}.{hint}")


@cache
def _choosing(kind: type[Evaluator]) -> Callable[..., MetricChoice]:
    """Return the function that chooses an evaluator, with a signature that ``help`` and notebooks show."""
    from leadline.api.metric_choice import MetricChoice

    def choose(*, name: str = "", **params: Any) -> MetricChoice:
        kind.parameters.build(kind.spec.id, params)
        return MetricChoice(f"{kind.spec.id}#{name}" if name else kind.spec.id, params)

    given = [
        inspect.Parameter(
            parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.get_default(call_default_factory=True),
            annotation=field.annotation,
        )
        for parameter, field in kind.parameters.model_fields.items()
    ]
    label = inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default="", annotation=str)
    choose.__signature__ = inspect.Signature([*given, label], return_annotation=MetricChoice)  # type: ignore[attr-defined]
    choose.__name__ = choose.__qualname__ = kind.spec.id.rpartition(".")[2]
    choose.__doc__ = kind.__doc__
    choose.__module__ = __name__
    return choose
