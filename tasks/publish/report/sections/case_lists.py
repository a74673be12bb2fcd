"""Lists that lead to cases: problems, insights, changes since the baseline, slices, flips, and the cases themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.evaluators.ground import listing
from leadline.tasks.analyse.changes import Changes
from leadline.tasks.analyse.slices import FALSE_DISCOVERIES, LEAST_CASES, slice_in_words
from leadline.tasks.db import Insight, sql
from leadline.tasks.publish.facts import Facts, MetricView, ModelView
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.summary import flip_sentences


@register_section
class ProblemList(Section):
    """Every problem, with a way to its answers."""

    name = "problems"
    file = "problem_list"
    title = "Problems"
    order = 400

    def count(self, facts: Facts) -> int:
        """Return the number of problems."""
        return len(facts.problems)


MOST_LINKS: Final = 8
"""Cases that an insight leads to."""


@register_section
class InsightList(Section):
    """Every insight, with a way to its case."""

    name = "insights"
    file = "insight_list"
    title = "Insights"
    order = 500

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return the way from an insight to the keys of its first cases."""
        rows = results.facts.rows

        def cases(insight: Insight) -> list[str]:
            return list(dict.fromkeys(rows[row][0] for row in insight.row_ids if row in rows))[:MOST_LINKS]

        return {"cases": cases}

    def count(self, facts: Facts) -> int:
        """Return the number of insights."""
        return len(facts.insights)


@register_section
class ChangedRows(Section):
    """By model the cases that changed sides and the metrics that were compared."""

    name = "changes"
    file = "changed_rows"
    title = "Changes"
    order = 350

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the changes; the section is left out where no run was compared."""
        changes = _compared(results.facts)
        return None if changes is None else {"changes": changes}

    def count(self, facts: Facts) -> int | None:
        """Return the number of rows that changed sides."""
        changes = _compared(facts)
        return None if changes is None else changes.n_broken + changes.n_fixed


def _compared(facts: Facts) -> Changes | None:
    return facts.changes if facts.changes and not facts.changes.baseline.note else None


MOST_TOLD: Final = 40
"""Metrics and models whose flips are told in sentences."""


@register_section
class FlipPairs(Section):
    """Rates and pairs of answers that change sides of the threshold when their question is perturbed."""

    name = "flips"
    file = "flip_pairs"
    title = "Flips"
    order = 600

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the rates of the primary metrics; without any rate, the section is left out."""
        facts = results.facts
        primary = {metric.id for evaluator in facts.evaluators for metric in evaluator.metrics if metric.primary}
        rates = [rate for rate in facts.flip_rates if rate.metric_id in primary]
        told = [
            (rate, list(flip_sentences(rate, facts.cause(rate))))
            for rate in rates
            if not rate.perturbation and rate.word
        ]
        return {"rates": rates, "told": told[:MOST_TOLD], "noisy": bool(told)} if facts.flip_rates else None

    def count(self, facts: Facts) -> int:
        """Return the number of flips."""
        return facts.n_flips


MOST_LINES: Final = 400
"""Lines of the table in the page; ``slices.csv`` has all."""


@dataclass(frozen=True, slots=True)
class SliceLine:
    """A line of the table.

    Attributes:
        model: The model; ``None`` for all together.
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
    file = "slice_table"
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


@register_section
class CaseBrowser(Section):
    """Every case that fits into the page; other sections lead to it by ``page.show`` and ``page.openCase``."""

    name = "cases"
    file = "case_browser"
    title = "Cases"
    order = 900

    def count(self, facts: Facts) -> int:
        """Return the number of cases of the run."""
        return facts.n_cases
