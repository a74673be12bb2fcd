"""Slices measured: how each metric of each model does on the rows that share a value, against all its other rows.

The scores are summed once, by combination of slices (``slices.sql``); the formulas over these sums are here. Whether a
slice differs from the rest is tested with its permutation distribution: if membership had nothing to do with the
values, the slice's mean would be that of as many rows drawn without replacement, whose first three moments are known.
A Pearson type III distribution with these moments gives the p-value; it follows the skew of rare failures, which a
normal one does not. Copies of a case count as one case. For looking at many, the tests are corrected with Benjamini and
Hochberg: those over all models together as one family, those of single models as another.

References:
    * Benjamini and Hochberg, "Controlling the false discovery rate", J. R. Statist. Soc. B 57 (1995).
    * Mielke and Berry, "Permutation Methods: A Distance Function Approach", Springer (2007), on Pearson type III.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.tasks.analyse.slice_columns import LEAST_CASES, ChosenColumn, fill_slice_rows
from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.statistics.statistics import Sample, mean_interval

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Numbers = npt.NDArray[np.float64]

MOST_COMBINATIONS: Final = 5_000
"""Most combinations of slices that the scores are summed by at once; with more, each column has a pass of its own."""
FALSE_DISCOVERIES: Final = 0.05
"""Share of the slices found that may differ by chance only (Benjamini and Hochberg)."""
_EVERY_ROW: Final = 0  # the slice of slices.sql that contains all rows


def find_slices(connection: DuckDBPyConnection, *, names: Sequence[str] = ()) -> tuple[ChosenColumn, int]:
    """Fill the tables ``slice_rows`` and ``slices``; return the columns and the number of lines.

    Measured are the metrics that are means of rows and say something of their own: the primary ones, and those that the
    policy gives another role than *information*. Only the latter are compared with the rest.

    Args:
        connection: The run's database, aggregated.
        names: Columns to slice by, besides those that the policy names; all that suit when empty.
    """
    metrics = {line["metric_id"]: line for line in records(connection, sql("slices/metrics"))}
    demanded = sorted({column for metric in metrics.values() for column in metric["slices"]})
    chosen = fill_slice_rows(connection, names=names, demanded=demanded)
    lines: list[dict[str, Any]] = []
    if chosen.columns:
        show_targets(connection)
        connection.execute(sql("slices/slice_ids"))
        connection.execute(sql("slices/sizes"))
        connection.execute(sql("slices/overalls"), {"metrics": list(metrics)})
        connection.execute(sql("slices/centres"))
        sums = _sums(connection, chosen.columns)
        lines = _lines(connection, metrics, sums)
    return chosen, replace_lines(connection, "slices", lines)


def _sums(connection: DuckDBPyConnection, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return each slice's sums with those of all rows beside them: by all columns at once where that is quicker."""
    connection.execute(sql("slices/row_combinations"), {"columns": list(columns)})
    connection.execute(sql("slices/combinations"))
    (n,) = connection.execute("SELECT count(*) FROM combinations").fetchall()[0]
    if n > MOST_COMBINATIONS and len(columns) > 1:
        return [line for column in columns for line in _sums(connection, [column])]
    for statement in ("numbered_rows", "combination_sums"):
        connection.execute(sql(f"slices/{statement}"))
    sums = records(connection, sql("slices/slice_sums"))
    every = {(line["metric_id"], line["model_id"]): line for line in sums if line["slice_id"] == _EVERY_ROW}
    return [
        line | {"every": every[line["metric_id"], line["model_id"]]} for line in sums if line["slice_id"] != _EVERY_ROW
    ]


def _lines(
    connection: DuckDBPyConnection, metrics: Mapping[int, Mapping[str, Any]], sums: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    slices = {line["slice_id"]: line for line in records(connection, "SELECT * FROM slice_ids")}
    sizes = {(line["slice_id"], line["model_id"]): line for line in records(connection, "SELECT * FROM slice_sizes")}
    several = len({model for _, model in sizes if model is not None}) > 1
    kept = [line for line in sums if line["model_id"] is not None or several]
    lines, tested = [], []
    for line in kept:
        metric, model = metrics[line["metric_id"]], line["model_id"]
        size, whole = sizes[line["slice_id"], model], sizes[_EVERY_ROW, model]
        n, every = line["n_scored"], line["every"]
        cases, all_cases = _independent(n, size), _independent(every["n_scored"], whole)
        named = slices[line["slice_id"]]
        lines.append(
            {
                "slice_column": named["slice_column"],
                "slice_value": named["slice_value"],
                "metric_id": line["metric_id"],
                "model_id": model,
                "n_rows": size["n_rows"],
                "n_cases": size["n_cases"],
                "n_scored": n,
                "n_unscored": line["n_unscored"],
                "n_pass": line["n_pass"],
                **_value(line, metric, cases),
                **_rest(line, every),
                "p_value": None,
                "q_value": None,
            }
        )
        varies = every["minimum"] != every["maximum"]
        if metric["compared"] and varies and min(cases, all_cases - cases) >= LEAST_CASES:
            tested.append((len(lines) - 1, cases, all_cases))
    _test(lines, kept, metrics, tested)
    return sorted(lines, key=_place)


def _place(line: Mapping[str, Any]) -> tuple[Any, ...]:
    model = -1 if line["model_id"] is None else line["model_id"]
    tested = (line["q_value"] is None, line["q_value"] or 0, line["p_value"] or 0)
    return (*tested, line["slice_column"], line["slice_value"], line["metric_id"], model)


def _independent(scored: int, size: Mapping[str, int]) -> int:
    """Return how many independent cases the scored rows stand for: the share of a slice's cases that its rows have."""
    return max(1, round(size["n_cases"] * scored / size["n_rows"])) if scored else 0


def _value(line: Mapping[str, Any], metric: Mapping[str, Any], cases: int) -> dict[str, Any]:
    """Return the mean of a slice with its interval."""
    n, constant = line["n_scored"], line["minimum"] == line["maximum"]
    if not n:
        return {"value": None, "ci_low": None, "ci_high": None}
    mean = line["minimum"] if constant else line["overall"] + line["overall_total"] / n
    if not math.isfinite(mean):
        return {"value": None if math.isnan(mean) else mean, "ci_low": None, "ci_high": None}
    shift = line["overall_total"] / n
    squares = max(0.0, line["overall_squares"] - n * shift**2)
    cubes = line["overall_cubes"] - 3 * shift * line["overall_squares"] + 2 * n * shift**3
    fewer = (cases - 1) / (n - 1) if n > 1 and not constant else 0.0
    sample = Sample(
        n=cases,
        mean=mean,
        squares=fewer * squares,
        cubes=fewer * cubes,
        constant=constant,
        low=metric["low"],
        high=metric["high"],
        share=metric["is_share"],
    )
    interval = mean_interval(sample)
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"value": mean, "ci_low": low, "ci_high": high}


def _rest(line: Mapping[str, Any], every: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the mean of all other rows, and by how much the slice differs from them, each model from its own mean."""
    n, rest = line["n_scored"], every["n_scored"] - line["n_scored"]
    if not rest:
        return {"rest_value": None, "difference": None}
    value = every["overall"] + (every["overall_total"] - line["overall_total"]) / rest
    if not n:
        return {"rest_value": value, "difference": None}
    return {"rest_value": value, "difference": line["total"] / n - (every["total"] - line["total"]) / rest}


def _test(
    lines: list[dict[str, Any]],
    sums: Sequence[Mapping[str, Any]],
    metrics: Mapping[int, Mapping[str, Any]],
    tested: Sequence[tuple[int, int, int]],
) -> None:
    """Write p and q into the lines that can be compared with the rest."""
    if not tested:
        return
    at, cases, all_cases = (np.array(column) for column in zip(*tested, strict=True))
    every = [sums[position]["every"] for position in at]
    n = np.array([line["n_scored"] for line in every], dtype=np.float64)
    mean, square, cube = (np.array([line[name] for line in every]) / n for name in ("total", "squares", "cubes"))
    own = np.array([sums[position]["total"] / sums[position]["n_scored"] for position in at])
    p = permutation_p(
        own - mean,
        variance=square - mean**2,
        third=cube - 3 * mean * square + 2 * mean**3,
        drawn=cases.astype(np.float64),
        population=all_cases.astype(np.float64),
        step=np.array([1.0 if metrics[sums[position]["metric_id"]]["is_share"] else 0.0 for position in at]),
    )
    together = np.array([sums[position]["model_id"] is None for position in at])
    q = np.empty(len(p))
    for family in (together, ~together):
        q[family] = benjamini_hochberg(p[family])
    for position, one, corrected in zip(at, p, q, strict=True):
        lines[position] |= {"p_value": float(one), "q_value": float(corrected)}


def permutation_p(
    deviation: Numbers, *, variance: Numbers, third: Numbers, drawn: Numbers, population: Numbers, step: Numbers
) -> Numbers:
    """Return two-sided p-values of the means of rows drawn without replacement from a finite population.

    The tail of a Pearson type III distribution with the mean's exact variance and skewness is doubled. Values that come
    in steps, such as 0 and 1, get a continuity correction of half a step of their sum.

    Args:
        deviation: The mean of the drawn less that of the population.
        variance: Variance of the population (divisor N).
        third: Its third central moment.
        population: Size of the population.
        step: Distance between possible values of a single one; 0 where they are continuous.
    """
    from scipy.special import gammainc, gammaincc, ndtr

    rest = population - drawn
    spread = np.sqrt(np.maximum(variance, 0.0) * rest / (drawn * (population - 1)))
    constant = spread <= 1e-12 * (np.abs(deviation) + 1e-300)
    safe = np.where(constant, 1.0, spread)
    moment = third * rest * (rest - drawn) / (drawn**2 * (population - 1) * (population - 2))
    skew = np.where(constant, 0.0, moment / safe**3)
    size = np.maximum(np.abs(deviation) - step / (2 * drawn), 0.0)
    z = np.sign(deviation) * size / safe
    flat = np.abs(skew) < 1e-3
    shape = 4 / np.where(flat, 1.0, skew) ** 2
    scaled = np.maximum(shape + z * np.sign(skew) * np.sqrt(shape), 0.0)
    below, above = gammainc(shape, scaled), gammaincc(shape, scaled)
    wanted = np.where((deviation > 0) == (skew > 0), above, below)
    tail = np.where(flat, ndtr(-np.abs(z)), wanted)
    return np.where(constant | (size == 0), 1.0, np.minimum(1.0, 2 * tail))


def benjamini_hochberg(p_values: Numbers) -> Numbers:
    """Return q-values: the least rate of false discoveries at which each p-value is a discovery."""
    n = len(p_values)
    if not n:
        return p_values
    order = np.argsort(p_values)
    scaled = p_values[order] * n / np.arange(1, n + 1)
    q_values = np.empty(n)
    q_values[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q_values
