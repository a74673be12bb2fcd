"""Metrics: their name, direction, range and threshold; and the values of a row that passes or fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict, Unpack

from leadline.evaluators.data import Evidence, Flag, Json, Reason, RowScore, Severity, Unscored

INF = math.inf
Board: TypeAlias = Literal["heatmap", "bool"]


class _Fields(TypedDict, total=False):
    range: tuple[float, float]
    threshold: float | None
    primary: bool
    share: bool
    dataset_level: bool
    pooled: bool


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that an evaluator produces.

    Attributes:
        key: Identifier, unique within its evaluator.
        name: Name for people.
        higher_is_better: Direction; there is no default on purpose.
        range: Least and greatest value it can take.
        threshold: Value that separates good from bad, ``None`` when the metric has none.
        primary: Whether it decides the evaluator's leaderboard.
        description: One or two sentences for a reader.
        share: Whether a row's value is 0 or 1, so that the mean is a share (and gets the exact interval of one).
        dataset_level: Whether it has no value per row and is computed over all rows of a model at once.
        pooled: Whether it has a value per row, which says how that row fares, but the model's value is computed over
            all rows at once and is not their mean.
    """

    key: str
    name: str
    higher_is_better: bool
    range: tuple[float, float] = (0.0, 1.0)
    threshold: float | None = 0.75
    primary: bool = False
    description: str = ""
    share: bool = False
    dataset_level: bool = False
    pooled: bool = False

    @classmethod
    def higher(cls, key: str, description: str = "", *, name: str = "", **more: Unpack[_Fields]) -> Metric:
        """Return a metric of which higher values are better.

        Args:
            description: One or two sentences for a reader.
            name: Name for people; made from the key by default.
            **more: Other fields of :class:`Metric`.
        """
        return cls(key, name or title(key), True, description=description, **more)

    @classmethod
    def lower(cls, key: str, description: str = "", *, name: str = "", **more: Unpack[_Fields]) -> Metric:
        """Return a metric of which lower values are better; see :meth:`higher`."""
        return cls(key, name or title(key), False, description=description, **more)

    def passes(self, value: float, threshold: float | None = None) -> bool | None:
        """Return whether a value satisfies the threshold (inclusive), or ``None`` without a threshold.

        Args:
            value: The value of a row or of a model.
            threshold: A threshold to use instead of the metric's own; ``None`` for the metric's own.
        """
        limit = self.threshold if threshold is None else threshold
        if limit is None:
            return None
        return value >= limit if self.higher_is_better else value <= limit

    def to_json(self) -> dict[str, Json]:
        """Return the public description; an infinite bound is ``"inf"``, as in the references' own descriptions."""
        return {
            "key": self.key,
            "name": self.name,
            "higher_is_better": self.higher_is_better,
            "range": [_bound(bound) for bound in self.range],
            "threshold": None if self.threshold is None else _bound(self.threshold),
            "primary": self.primary,
            "description": self.description,
        }


def one_metric(
    key: str, description: str = "", *, name: str = "", higher_is_better: bool = True, **more: Unpack[_Fields]
) -> tuple[Metric]:
    """Return the metrics of an evaluator that has only one; see :meth:`Metric.higher`."""
    return (Metric(key, name or title(key), higher_is_better, description=description, **more),)


def title(id_: str) -> str:
    """Return a name for people: ``acme.all_caps`` becomes ``Acme all caps``."""
    words = id_.replace(".", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def _bound(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


def boolean_metrics(
    passes: tuple[str, str],
    failures: tuple[str, str],
    retrieval: tuple[str, str],
    generation: tuple[str, str],
    parsing: tuple[str, str] | None,
    *,
    what: str,
) -> tuple[Metric, ...]:
    """Return the four or five metrics of a pass/fail evaluator.

    Args:
        passes: Key and name of the share of rows that pass (primary).
        failures: Key and name of the share that fails.
        retrieval: Key and name of the share whose retrieved context fails.
        generation: Key and name of the share whose answer fails.
        parsing: Key and name of the share that could not be parsed, or ``None`` without such a metric.
        what: What the check looks for, as it reads after "for".
    """
    rows: list[tuple[tuple[str, str] | None, bool, str]] = [
        (passes, True, f"Share of answers that pass the check for {what}."),
        (failures, False, f"Share of answers that fail the check for {what}."),
        (retrieval, False, f"Share of answers whose retrieved context fails the check for {what}."),
        (generation, False, f"Share of answers whose generated text fails the check for {what}."),
        (parsing, False, f"Share of answers that could not be parsed in the check for {what}."),
    ]
    return tuple(
        Metric(
            key=label[0],
            name=label[1],
            higher_is_better=better,
            threshold=0.5,
            primary=better,
            description=text,
            share=True,
        )
        for label, better, text in rows
        if label is not None
    )


def verdict(
    metrics: Sequence[Metric],
    *,
    generation: bool | None,
    retrieval: bool | None = False,
    parsing: bool = False,
    unknown: str = "",
    why: Reason = Reason.UNSCORABLE,
) -> dict[str, float | Unscored]:
    """Return a row's 0/1 values by metric key.

    A row fails if its answer fails, its context fails, or both. What is not known is unscored: a row whose answer
    could not be read neither passes nor fails, unless its context fails it.

    Args:
        metrics: The four or five metrics that ``boolean_metrics`` returned.
        generation: Whether the answer fails; ``None`` when that is not known.
        retrieval: Whether the retrieved context fails; ``None`` when that is not known.
        parsing: Whether something could not be parsed.
        unknown: Why something is not known.
        why: What kind of reason that is.
    """
    if generation or retrieval:
        failed: bool | None = True
    else:
        failed = None if generation is None or retrieval is None else False
    passed = None if failed is None else not failed
    reason = Unscored(why, unknown)
    return {
        metric.key: reason if value is None else float(value)
        for metric, value in zip(metrics, (passed, failed, retrieval, generation, parsing), strict=False)
    }


def unparseable(
    metrics: Sequence[Metric], message: str, *, why: Reason = Reason.UNSCORABLE, severity: Severity = Severity.MEDIUM
) -> RowScore:
    """Return a row of which nothing could be checked: a parsing failure that neither passes nor fails.

    Args:
        metrics: The five metrics that ``boolean_metrics`` returned.
        message: What could not be parsed; also reported as a problem.
        why: What kind of failure it is.
        severity: How bad a problem it is.
    """
    return RowScore(
        verdict(metrics, generation=None, retrieval=None, parsing=True, unknown=message, why=why),
        Evidence(message),
        (Flag("evaluation", severity, message),),
    )
