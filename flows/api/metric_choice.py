"""Choosing metrics: evaluators by id, with parameters, as classes, or as plain functions of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.row import Row

MetricFunction: TypeAlias = Callable[[Row], float | bool | None]
"""A function that scores one row: a number, or whether the row is good; ``None`` where it does not apply."""


@dataclass(frozen=True)
class MetricChoice:
    """An evaluator with parameters, as :mod:`leadline.metrics` makes it.

    Attributes:
        id: Its id.
        params: Its parameters; those left out have their defaults.
    """

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"leadline.metrics.{self.id}({given})"


Metrics: TypeAlias = "str | MetricChoice | type[Evaluator] | Evaluator | MetricFunction"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The evaluators of a request.

    Attributes:
        ids: Their ids.
        params: Parameters by id, of those that have some.
        own: Those of them that only this process knows: classes, and functions as evaluators.
    """

    ids: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]
    own: tuple[type[Evaluator], ...]


def chosen_metrics(metrics: Metrics | Iterable[Metrics]) -> Chosen:
    """Return the evaluators that a user named in any of the ways that there are.

    Args:
        metrics: One of them, or several.

    Raises:
        UsageError: One is none of them, or is named twice.
    """
    each = [metrics] if isinstance(metrics, str | MetricChoice | Evaluator) or callable(metrics) else list(metrics)
    ids: list[str] = []
    params: dict[str, Mapping[str, Any]] = {}
    own: list[type[Evaluator]] = []
    for metric in each:
        choice, kind = _resolved(metric)
        if choice.id in ids:
            raise UsageError(
                f"The metric {choice.id} is named twice.",
                hint=f"Give one a name of its own: {choice.id}#NAME, or name= in leadline.metrics.",
                code=ErrorCode.CONFIG_OPTION,
            )
        ids.append(choice.id)
        if choice.params:
            params[choice.id] = choice.params
        if kind is not None:
            own.append(kind)
    return Chosen(tuple(ids), params, tuple(own))


def _resolved(metric: Any) -> tuple[MetricChoice, type[Evaluator] | None]:
    """Return a metric as an id with parameters, and the class where it is not one of Leadline's."""
    if isinstance(metric, str):
        return MetricChoice(metric), None
    if isinstance(metric, MetricChoice):
        return metric, None
    if isinstance(metric, Evaluator):
        return MetricChoice(metric.spec.id, metric.params.model_dump(exclude_defaults=True)), type(metric)
    if isinstance(metric, type) and issubclass(metric, Evaluator):
        return MetricChoice(metric.spec.id), metric
    raise UsageError(
        f"{str(metric)[:80]!r} is no metric.",
        hint="Give the id of an evaluator, a class of one, or a function that takes a row.",
        code=ErrorCode.CONFIG_OPTION,
    )
