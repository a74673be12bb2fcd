"""Slices: rows that share a value of a column, and where a model is worse or better on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import listing
from leadline.tasks.analyse.slices import FALSE_DISCOVERIES, LEAST_CASES, slice_in_words
from leadline.tasks.db import sql
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.views import Facts, MetricView, ModelView

if TYPE_CHECKING:
    from leadline.tasks.publish.run_results import RunResults

MOST_LINES: Final = 400
"""Lines of the table in the page; ``slices.csv`` has all."""


@dataclass(frozen=True, slots=True)
class SliceLine:
    """A line of the table.

    Attributes:
        column: Name of the column.
        words: The rows of the slice, in words.
        label: Name of the evaluator and metric.
        model: The model; ``None`` for all together.
        n_scored: Answers that were scored.
        n_unscored: Answers that could not be.
        value: Their mean.
        ci_low: Lower end of its interval.
        ci_high: Upper end of its interval.
        rest_value: The mean of all other answers.
        standing: ``worse`` or ``better`` where that is more than chance, ``few`` where too few cases are in the slice,
            else ``""``.
    """

    column: str
    words: str
    label: str
    metric: MetricView
    model: ModelView | None
    n_scored: int
    n_unscored: int
    value: float | None
    ci_low: float | None
    ci_high: float | None
    rest_value: float | None
    standing: str

    @property
    def passes(self) -> bool | None:
        """True if the mean satisfies the threshold; ``None`` without one."""
        return None if self.value is None else self.metric.passes(self.value)


@register_section
class SliceTable(Section):
    """A table of slices, the surely worse ones first."""

    name = "slices"
    title = "Slices"
    order = 550

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the lines of the page; without any slice, the section is left out."""
        facts = results.facts
        cursor = results.connection.execute(sql("publish/slices").format(most=MOST_LINES))
        names = [column[0] for column in cursor.description or ()]
        lines = [_line(facts, dict(zip(names, found, strict=True))) for found in cursor.fetchall()]
        if not lines:
            return None
        (total,) = results.connection.execute("SELECT count(*) FROM slices").fetchall()[0]
        return {
            "lines": lines,
            "total": total,
            "columns": sorted({line.column for line in lines}),
            "labels": sorted({line.label for line in lines}),
            "least_cases": LEAST_CASES,
            "left_out": _left_out(facts),
        }


def _line(facts: Facts, found: Mapping[str, Any]) -> SliceLine:
    metric = facts.metric(found["metric_id"])
    evaluator = facts.evaluator(metric.evaluator_id) if metric else None
    if metric is None or evaluator is None:
        raise LookupError(f"The run has no metric {found['metric_id']}.")
    q, difference = found["q_value"], found["difference"]
    standing = ""
    if q is None:
        standing = "few" if found["n_cases"] < LEAST_CASES else ""
    elif q <= FALSE_DISCOVERIES:
        standing = "worse" if (difference < 0) is metric.higher_is_better else "better"
    return SliceLine(
        column=found["slice_column"],
        words=slice_in_words(found["slice_column"], found["slice_value"]),
        label=evaluator.label(metric),
        metric=metric,
        model=facts.model(found["model_id"]),
        standing=standing,
        **{name: found[name] for name in ("n_scored", "n_unscored", "value", "ci_low", "ci_high", "rest_value")},
    )


def _left_out(facts: Facts) -> str:
    """Return in a sentence which columns have no slices and why, or ""."""
    slices = facts.record.get("slices")
    reasons = slices.get("left_out") if isinstance(slices, dict) else None
    if not reasons:
        return ""
    return f"Left out: {listing((f'{name} ({why})' for name, why in reasons.items()), most=6)}."
