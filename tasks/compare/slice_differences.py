"""Differences by slice: how much better or worse the candidate is on the cases that share a value of a column.

A case is in a slice if its rows on both sides are: where the column depends on the answer, as *retrieval* does, a slice
that was chosen by one side alone would favour the other. The measurement is that of the whole metric, on fewer cases.
For looking at many, the tests are corrected with Benjamini and Hochberg. No verdict depends on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, listing, one_line
from leadline.tasks.analyse.slices import FALSE_DISCOVERIES, LEAST_CASES, slice_in_words
from leadline.tasks.compare.results import Change, MetricComparison, SliceComparison
from leadline.tasks.compare.run_pair import SIDES, Values, number_clusters
from leadline.tasks.compare.verdicts import label
from leadline.tasks.db import records, sql
from leadline.tasks.statistics.paired import PairedSeries, measure
from leadline.tasks.statistics.statistics import benjamini_hochberg

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Ints


@dataclass(frozen=True, slots=True)
class Slice:
    """The cases of a pair of models that share a value of a column, by their numbers."""

    column: str
    value: str
    cases: Ints


def require_slices(connection: DuckDBPyConnection, columns: Sequence[str]) -> None:
    """Refuse a column that a run has no slices by.

    Raises:
        UsageError: There is such a column.
    """
    known = {}
    for side in SIDES if columns else ():
        lines = records(connection, sql("compare/slice_columns").format(side=side))
        known[side] = [line["slice_column"] for line in lines]
    for column in columns:
        lacking = [side for side in SIDES if column not in known[side]]
        if lacking:
            both = [name for name in known["baseline"] if name in known["candidate"]]
            who = "Neither run has" if len(lacking) == 2 else f"The {lacking[0]}'s run has no"
            known_to_both = f"Both runs have: {listing(map(one_line, both), most=20)}. " if both else ""
            raise UsageError(
                f"{who} slices by {one_line(column)!r}.",
                hint=f"{known_to_both}A run gets others by: leadline evaluate … --slice COLUMN",
                code=ErrorCode.COMPARE_NO_SLICE,
            )


def read_slices(connection: DuckDBPyConnection, columns: Sequence[str]) -> list[Slice]:
    """Read which cases of the ``row_pairs`` are in which slice."""
    if not columns:
        return []
    connection.execute(sql("compare/slice_cases"), {"columns": list(columns)})
    sizes = records(connection, sql("compare/slice_sizes"))
    cases = np.asarray(connection.execute(sql("compare/sliced_cases")).fetchnumpy()["case_no"], dtype=np.int64)
    ends = np.cumsum([line["n"] for line in sizes], dtype=np.int64)
    parts = np.split(cases, ends[:-1])
    return [Slice(line["slice_column"], line["slice_value"], part) for line, part in zip(sizes, parts, strict=False)]


def compare_slices(
    found: MetricComparison, values: Values, series: PairedSeries, slices: Iterable[Slice]
) -> Iterator[SliceComparison]:
    """Measure a metric on each slice that has enough independent cases; the q-values are still missing."""
    for part in slices:
        at = np.isin(values.cases, part.cases, assume_unique=True)
        if at.sum() < LEAST_CASES:
            continue
        clusters = None if values.clusters is None else number_clusters(values.clusters[at])
        measured = measure(dataclasses.replace(series, differences=series.differences[at], clusters=clusters))
        if measured.groups < LEAST_CASES:
            continue
        yield SliceComparison(
            column=part.column,
            value=part.value,
            words=slice_in_words(part.column, part.value),
            metric=found.metric.key,
            label=label(found),
            share=found.metric.share,
            models=found.models,
            n=measured.n,
            baseline=float(values.baseline[at].mean()),
            candidate=float(values.candidate[at].mean()),
            effect=measured.effect,
            ci_low=measured.interval.low if measured.interval else None,
            ci_high=measured.interval.high if measured.interval else None,
            p=measured.p,
        )


def judge_slices(found: Iterable[SliceComparison]) -> tuple[SliceComparison, ...]:
    """Correct the tests of all slices together; return the surely worse slices first, the surely better ones last."""
    lines = list(found)
    tested = [line for line in lines if line.p is not None]
    q_values = benjamini_hochberg(np.array([line.p for line in tested], dtype=np.float64))
    judged = [
        dataclasses.replace(line, q=float(q), change=_change(line, q)) for line, q in zip(tested, q_values, strict=True)
    ]
    return (*sorted(judged, key=_order), *(line for line in lines if line.p is None))


def _change(line: SliceComparison, q: float) -> Change:
    if not line.effect or q > FALSE_DISCOVERIES:
        return "none shown"
    return "better" if line.effect > 0 else "worse"


def _order(line: SliceComparison) -> tuple[bool, float, float]:
    effect, p = line.effect or 0.0, 1.0 if line.p is None else line.p
    return effect >= 0, p if effect < 0 else -p, effect


def slice_notes(
    connection: DuckDBPyConnection, columns: Sequence[str], found: Sequence[SliceComparison]
) -> Iterator[str]:
    """Yield a sentence on the slices that were not compared."""
    if columns and not found:
        yield f"By slice nothing was compared: no tested metric has {LEAST_CASES} cases of a slice on both sides."
    elif columns:
        compared = {(line.column, line.value) for line in found}
        values = records(connection, sql("compare/slice_values"), {"columns": list(columns)})
        few = [pair for line in values if (pair := (line["slice_column"], line["slice_value"])) not in compared]
        if few:
            words = listing((slice_in_words(*pair) for pair in few), most=4)
            yield f"Not compared by slice, with fewer than {LEAST_CASES} cases on both sides: {words}."
