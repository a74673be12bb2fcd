"""Choosing metrics: evaluators by id, with parameters, as classes, or as plain functions of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from leadline.evaluators.core import Evaluator, find
from leadline.evaluators.core.user_evaluators import FunctionMetric, RowFunction
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.ground.code_digest import code_digest, is_installed


@dataclass(frozen=True)
class MetricChoice:
    """An evaluator with parameters, as :mod:`leadline.metrics` makes it.

    Attributes:
        params: Its parameters; those left out have their defaults.
    """

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        id_, _, name = self.id.partition("#")
        given = {**self.params, **({"name": name} if name else {})}
        return f"leadline.metrics.{id_}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


Metrics: TypeAlias = "str | MetricChoice | type[Evaluator] | Evaluator | FunctionMetric | RowFunction"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The evaluators of a request.

    Attributes:
        params: Parameters by id, of those that have some.
        own: Those of them that only this process knows: classes, and functions as evaluators.
    """

    ids: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]
    own: tuple[type[Evaluator], ...]


def chosen_metrics(metrics: Metrics | Iterable[Metrics] | None) -> Chosen:
    """Return the evaluators that a user named in any of the ways that there are.

    Raises:
        UsageError: One is none of them, or is named twice.
    """
    single = isinstance(metrics, str | MetricChoice | Evaluator) or callable(metrics)
    each: list[Any] = [metrics] if single or not isinstance(metrics, Iterable) else list(metrics)
    if metrics is None:
        each = []
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
        return MetricChoice(metric.spec.id, metric.params.model_dump(exclude_defaults=True)), _own(type(metric))
    if isinstance(metric, type) and issubclass(metric, Evaluator):
        return MetricChoice(metric.spec.id), _own(metric)
    if callable(metric) and not isinstance(metric, type):
        kind = (metric if isinstance(metric, FunctionMetric) else FunctionMetric(metric)).evaluator()
        return MetricChoice(kind.spec.id), kind
    raise UsageError(
        f"{str(metric)[:80]!r} is no metric.",
        hint="Give the id of an evaluator, a class of one, or a function that takes a row.",
        code=ErrorCode.CONFIG_OPTION,
    )


def _own(kind: type[Evaluator]) -> type[Evaluator] | None:
    """Return a class of the user's whose scores are keyed by its code; ``None`` for one that is found by its id."""
    if kind.source_digest or is_installed(kind):
        return None if find(kind.spec.id) is kind else kind
    members = {"spec": kind.spec, "source_digest": code_digest(kind).digest, "__doc__": kind.__doc__}
    return cast("type[Evaluator]", type(kind.__name__, (kind,), members | {"__module__": kind.__module__}))
