"""Slices: how each metric of each model does on the rows that share a value of a column, against all its other rows.

Columns are categories, metadata with few values, language, length, perturbation and retrieval.

The scores are summed once, by combination of slices (``slices.sql``); the formulas over these sums are here. Whether a
slice differs from the rest is tested with its permutation distribution: if membership had nothing to do with the
values, the slice's mean would be that of as many rows drawn without replacement, whose first three moments are known.
A Pearson type III distribution with these moments gives the p-value; it follows the skew of rare failures, which a
normal one does not. Copies of a case count as one case. For looking at many, the tests are corrected with Benjamini and
Hochberg: those over all models together as one family, those of single models as another.

References:
    * Benjamini and Hochberg, "Controlling the false discovery rate", J. R. Statist. Soc. B 57 (1995).
    * Grefenstette, "Comparing two language identification schemes", JADT (1995).
    * Mielke and Berry, "Permutation Methods: A Distance Function Approach", Springer (2007), on Pearson type III.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy

from leadline.evaluators.ground import ErrorCode, UsageError, count, listing, one_line
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import lines_shown, records, replace_lines, show_targets, sql
from leadline.tasks.statistics.statistics import Sample, benjamini_hochberg, mean_intervals

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Numbers = npt.NDArray[np.float64]


NONE: Final = "none"
"""Named in place of a column: no slices."""
LEAST_CASES: Final = 10
"""Independent cases in a slice, and outside of it, from which they are compared."""
MOST_VALUES: Final = 20
"""Most values of a metadata column that is taken unasked, and most slices of any column."""
MOST_COLUMNS: Final = 12
"""Most columns that are taken unasked."""
LEAST_ON_AVERAGE: Final = 5
"""Independent cases that a value of a metadata column has on average, for the column to be taken unasked."""
MOST_SLICES: Final = 240
"""Most slices of a run."""
LONGEST_VALUE: Final = 100
"""Most characters of a value; longer ones are texts, not values."""

LANGUAGE: Final = "language"
PERTURBATION: Final = "perturbation"
RETRIEVAL: Final = "retrieval"
BUILT_IN: Final = ("category", LANGUAGE, "question_length", PERTURBATION, RETRIEVAL)
_RETRIEVED: Final = {
    "expected document retrieved": "answers whose expected document was retrieved",
    "expected document missed": "answers whose expected document was not retrieved",
    "something retrieved": "answers for which something was retrieved",
    "nothing retrieved": "answers for which nothing was retrieved",
}
_LANGUAGE_KEYS: Final = ("language", "lang", "locale")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a dataset.

    Attributes:
        name: Its name: one of :data:`BUILT_IN`, or the key of the metadata.
        statement: The statement of ``slices.sql`` that gives its values.
        key: The key of the metadata, if it comes from there.
        left_out: Why it is not taken unasked; ``""`` if it is.
    """

    name: str
    statement: str
    key: str | None = None
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class ChosenColumn:
    """The columns of a run.

    Attributes:
        columns: Names of the columns that have slices.
        left_out: Why others have none, by name.
    """

    columns: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def find_columns(connection: DuckDBPyConnection) -> dict[str, Column]:
    """Return every column that the dataset has, by name; the metadata of cases goes before that of rows."""
    found: dict[str, Column] = {name: Column(name, name) for name in BUILT_IN}
    for table, statement in (("cases", "case_metadata"), ("rows", "row_metadata")):
        for line in records(connection, sql("slices/metadata_keys").format(table=table)):
            key = line["key"]
            name = LANGUAGE if key.casefold() in _LANGUAGE_KEYS else f"metadata.{key}" if key in BUILT_IN else key
            taken = found.get(name)
            if taken is None or taken.statement == LANGUAGE:
                found[name] = Column(name, statement, key, _why_not(line["n_values"], line["longest"]))
    return found


def _why_not(n_values: int, longest: int) -> str:
    if n_values < 2:
        return "it has one value"
    if n_values > MOST_VALUES:
        return f"it has {n_values:,} values, more than {MOST_VALUES}"
    return f"its values are longer than {LONGEST_VALUE} characters" if longest > LONGEST_VALUE else ""


def require_columns(connection: DuckDBPyConnection, names: Sequence[str]) -> None:
    """Refuse a name that is no column of the dataset.

    Raises:
        UsageError: The dataset has no such column.
    """
    if not names or list(names) == [NONE]:
        return
    known = find_columns(connection)
    for name in names:
        if name not in known:
            raise UsageError(
                f"There is no column {one_line(name)!r} to slice by.",
                hint=f"Columns: {listing(map(one_line, known), most=20)}; or {NONE} alone for no slices.",
                code=ErrorCode.DATA_NO_COLUMN,
            )


def fill_slice_rows(
    connection: DuckDBPyConnection, *, names: Sequence[str] = (), demanded: Sequence[str] = ()
) -> ChosenColumn:
    """Fill the table ``slice_rows`` and say which columns have slices.

    Args:
        names: Columns to slice by; all that suit when empty.
        demanded: Columns that the run's policy names: they are taken in any case.
    """
    connection.execute("DELETE FROM slice_rows")
    if list(names) == [NONE] and not demanded:
        return ChosenColumn()
    known = find_columns(connection)
    asked = dict.fromkeys((*(name for name in names if name != NONE), *demanded))
    left_out = {name: column.left_out for name, column in known.items() if column.left_out and name not in asked}
    wanted = [known[name] for name in asked if name in known]
    if not names:
        unasked = [known[name] for name in known if name not in asked and name not in left_out]
        left_out |= {column.name: f"there are {len(unasked)} columns" for column in unasked[MOST_COLUMNS:]}
        wanted += unasked[:MOST_COLUMNS]
    _candidates(connection, wanted)
    values = _values(connection, asked, left_out)
    _choose(connection, values)
    return ChosenColumn(tuple(values), left_out)


def _candidates(connection: DuckDBPyConnection, columns: Sequence[Column]) -> None:
    connection.execute(sql("slices/candidates"))
    connection.register("families", perturbation_clusters(connection))
    connection.execute(sql("slices/families"))
    connection.unregister("families")
    with lines_shown(connection, "language_words", _language_words()):
        for column in columns:
            params = {"column": column.name} | ({} if column.key is None else {"key": column.key})
            connection.execute(sql(f"slices/{column.statement}"), params)


@cache
def _language_words() -> dict[str, list[Any]]:
    """Return the words of each language with its number, each with a bit that no other of its words has."""
    text = (files("leadline.tasks.analyse") / "language_words.toml").read_text(encoding="utf-8")
    words = [
        (number, language, word, 1 << place)
        for number, (language, listed) in enumerate(tomllib.loads(text).items())
        for place, word in enumerate(listed.split())
    ]
    return dict(zip(("number", "language", "word", "bit"), map(list, zip(*words, strict=True)), strict=True))


def _values(
    connection: DuckDBPyConnection, asked: Mapping[str, None], left_out: dict[str, str]
) -> dict[str, list[str]]:
    """Return the values by column that become slices; why a column has none joins ``left_out``."""
    sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    rows: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for line in records(connection, sql("slices/values")):
        rows[line["slice_column"]].add((line["n_rows"], line["digest"]))
        if len(line["slice_value"]) <= LONGEST_VALUE:
            sizes[line["slice_column"]][line["slice_value"]] = line["n_cases"]
    out: dict[str, list[str]] = {}
    room = MOST_SLICES
    for name in sorted(sizes, key=lambda name: (name not in asked, name not in BUILT_IN)):
        values = sizes[name]
        same = next((other for other in out if rows[other] == rows[name]), None)
        if name not in asked and (why := f"it says the same as {same}" if same else _too_few(name, values)):
            left_out[name] = why
            continue
        out[name] = list(values)[: min(MOST_VALUES, room)]
        room -= len(out[name])
        if len(out[name]) < len(values):
            left_out[f"{name}, further values"] = f"{len(values) - len(out[name]):,} values with fewer cases"
    return {name: values for name, values in out.items() if values}


def _too_few(name: str, values: Mapping[str, int]) -> str:
    """Return why a column that was not asked for is not worth slicing by; ``""`` if it is."""
    if name == LANGUAGE:
        several = sum(n >= LEAST_CASES for n in values.values()) > 1
        return "" if several else f"fewer than two languages have {count(LEAST_CASES, 'case')} or more"
    if len(values) < 2:
        return "it has one value"
    if name in BUILT_IN or sum(values.values()) >= LEAST_ON_AVERAGE * len(values):
        return ""
    return f"its {len(values)} values have fewer than {LEAST_ON_AVERAGE} cases on average"


def _choose(connection: DuckDBPyConnection, values: Mapping[str, Sequence[str]]) -> None:
    pairs = [(name, value) for name, found in values.items() for value in found]
    if pairs:
        columns, chosen = zip(*pairs, strict=True)
        with lines_shown(connection, "chosen", {"slice_column": columns, "slice_value": chosen}):
            connection.execute(sql("slices/slice_rows"))
    connection.execute("DROP TABLE candidates")


def slice_in_words(column: str, value: str) -> str:
    """Return the rows of a slice in words: "rows of category tides", "questions of 6 to 10 words"."""
    value = one_line(value)
    return {
        "category": f"rows of category {value}",
        LANGUAGE: f"questions in language {value}",
        "question_length": f"questions of {value}",
        PERTURBATION: "unperturbed questions" if value == "none" else f"questions perturbed by {value}",
        RETRIEVAL: _RETRIEVED.get(value, value),
    }.get(column, f"rows with {one_line(column)} = {value}")


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
    lines: list[dict[str, Any]] = []
    tested, samples = [], dict[int, Sample]()
    for line in kept:
        metric, model = metrics[line["metric_id"]], line["model_id"]
        size, whole = sizes[line["slice_id"], model], sizes[_EVERY_ROW, model]
        n, every = line["n_scored"], line["every"]
        cases, all_cases = _independent(n, size), _independent(every["n_scored"], whole)
        named, value = slices[line["slice_id"]], _value(line)
        if value is not None and math.isfinite(value):
            samples[len(lines)] = _sample(line, value, metric, cases)
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
                "value": value,
                "ci_low": None,
                "ci_high": None,
                **_rest(line, every),
                "p_value": None,
                "q_value": None,
            }
        )
        varies = every["minimum"] != every["maximum"]
        if metric["compared"] and varies and min(cases, all_cases - cases) >= LEAST_CASES:
            tested.append((len(lines) - 1, cases, all_cases))
    for place, interval in zip(samples, mean_intervals(list(samples.values())), strict=True):
        if interval:
            lines[place] |= {"ci_low": interval.low, "ci_high": interval.high}
    _test(lines, kept, metrics, tested)
    return sorted(lines, key=_place)


def _place(line: Mapping[str, Any]) -> tuple[Any, ...]:
    model = -1 if line["model_id"] is None else line["model_id"]
    tested = (line["q_value"] is None, line["q_value"] or 0, line["p_value"] or 0)
    return (*tested, line["slice_column"], line["slice_value"], line["metric_id"], model)


def _independent(scored: int, size: Mapping[str, int]) -> int:
    """Return how many independent cases the scored rows stand for: the share of a slice's cases that its rows have."""
    return max(1, round(size["n_cases"] * scored / size["n_rows"])) if scored else 0


def _value(line: Mapping[str, Any]) -> float | None:
    """Return the mean of a slice, which may be infinite."""
    if not line["n_scored"]:
        return None
    if line["minimum"] == line["maximum"]:
        return float(line["minimum"])
    mean = line["overall"] + line["overall_total"] / line["n_scored"]
    return None if math.isnan(mean) else mean


def _sample(line: Mapping[str, Any], mean: float, metric: Mapping[str, Any], cases: int) -> Sample:
    """Return the rows of a slice as so many independent ones."""
    n, constant = line["n_scored"], line["minimum"] == line["maximum"]
    shift = line["overall_total"] / n
    squares = max(0.0, line["overall_squares"] - n * shift**2)
    cubes = line["overall_cubes"] - 3 * shift * line["overall_squares"] + 2 * n * shift**3
    fewer = (cases - 1) / (n - 1) if n > 1 and not constant else 0.0
    return Sample(
        n=cases,
        mean=mean,
        squares=fewer * squares,
        cubes=fewer * cubes,
        constant=constant,
        low=metric["low"],
        high=metric["high"],
        share=metric["is_share"],
    )


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
    below, above = scipy.special.gammainc(shape, scaled), scipy.special.gammaincc(shape, scaled)
    wanted = np.where((deviation > 0) == (skew > 0), above, below)
    tail = np.where(flat, scipy.special.ndtr(-np.abs(z)), wanted)
    return np.where(constant | (size == 0), 1.0, np.minimum(1.0, 2 * tail))
