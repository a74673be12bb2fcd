"""The scores of two runs side by side: both databases attached for reading, cases matched by key, one metric at a time.

In memory is one metric of one pair of models at a time: three numbers per case. DuckDB spills the rest to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np

from leadline.evaluators.ground import ErrorCode, StoreError, UsageError
from leadline.tasks.analyse.clusters import numbered, perturbation_clusters
from leadline.tasks.compare.results import Answers, ChangedRow, Coverage, MetricInfo, ModelPair
from leadline.tasks.db import (
    DATASET_TABLES,
    TURNS_FILE,
    connect,
    lines_shown,
    literal,
    records,
    release,
    sql,
    threads_for,
)
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Floats, Ints

SIDES: Final = ("baseline", "candidate")
RUN_TABLES: Final = (
    "evaluators", "metrics", "rules", "scores", "repeats", "judged_again", "evidence", "aggregates", "slice_rows",
)  # fmt: skip
MOST_TEXT: Final = 4_000
"""Characters of a text that a report shows."""

_CASE_FIELDS: Final = (
    *("question", "expected_answer", "condition", "expected_documents", "expected_annotations"),
    *("history", "expected_tool_calls", "expected_outcome", "scenario"),
)
_ANSWER_FIELDS: Final = (
    "actual_answer", "retrieved_context", "retrieved_documents", "predicted_annotations", "replies", "tool_calls",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Values:
    """One metric of the cases that both models have a value for, in the order of the cases.

    Attributes:
        baseline: The baseline's values, trials averaged.
        clusters: The cluster of each case, counted from 0 without gaps; ``None`` where no two cases are related.
    """

    cases: Ints
    baseline: Floats
    candidate: Floats
    clusters: Ints | None


@dataclass(frozen=True, slots=True)
class CountedOutcomes:
    """The outcomes of all cases on one metric, and how far the unscored ones could move the sum of the differences.

    Attributes:
        worst: Sum over the unscored cases of candidate less baseline if every unknown value were the worst for the
            candidate; ``None`` if unbounded.
        best: The same if every one were the best.
        same: Whether every case, scored or not, has the same answer on both sides.
    """

    coverage: Coverage
    worst: float | None
    best: float | None
    same: bool = False


@contextmanager
def open_sides(store: Store, baseline: Run, candidate: Run) -> Iterator[DuckDBPyConnection]:
    """Open two runs, or one twice, for reading; their tables are the schemas ``baseline`` and ``candidate``.

    Args:
        candidate: The run that is compared; may be the same.

    Raises:
        UsageError: A run has no results yet, or its dataset is gone.
        StoreError: Another process writes one of them just now.
    """
    temporary = store.root / "tmp"
    temporary.mkdir(exist_ok=True)
    threads = [threads_for(run.read_current()) for run in (baseline, candidate)]
    with connect(threads=None if None in threads else 1, spill=temporary) as connection:
        connection.execute("SET preserve_insertion_order = false")
        catalogs: dict[str, str] = {}
        for side, run in zip(SIDES, (baseline, candidate), strict=True):
            if run.id not in catalogs:
                catalogs[run.id] = _attach(connection, store, run, f"{side}_run")
            _create_views(connection, store, run, side, catalogs[run.id])
        connection.execute(sql("compare/cases"))
        # Of one dataset both sides have the same.
        of_sides = SIDES if len({run.read_current()["dataset"] for run in (baseline, candidate)}) > 1 else SIDES[:1]
        links = " UNION ALL ".join(sql("compare/copies").format(side=side) for side in of_sides)
        connection.register("families", perturbation_clusters(connection, links))
        yield connection


def _attach(connection: DuckDBPyConnection, store: Store, run: Run, name: str) -> str:
    store.fetch_database(run)
    release(run)
    if run.read().get(DROPPED) or not run.database.exists():
        raise run.without_results()
    try:
        connection.execute(f"ATTACH {literal(run.database)} AS {name} (READ_ONLY)")
    except duckdb.IOException as error:
        raise StoreError(
            f"The database of run {run.id!r} is in use by another process: {str(error).splitlines()[0]}",
            hint="Try again when that process has ended.",
            code=ErrorCode.STORE_IN_USE,
        ) from error
    return name


def _create_views(connection: DuckDBPyConnection, store: Store, run: Run, side: str, catalog: str) -> None:
    dataset = str(run.read_current()["dataset"])
    if not store.has_dataset(dataset):
        raise UsageError(
            f"The dataset {dataset} of run {run.id!r} is no longer in the store.", code=ErrorCode.STORE_NO_DATASET
        )
    connection.execute(f"CREATE SCHEMA {side}")
    for table in RUN_TABLES:
        connection.execute(f"CREATE VIEW {side}.{table} AS FROM {catalog}.{table}")
    for table in DATASET_TABLES:
        file: Path = store.dataset(dataset) / f"{table}.parquet"
        connection.execute(f"CREATE VIEW {side}.{table} AS FROM read_parquet({literal(file)})")
    turns = store.dataset(dataset) / TURNS_FILE
    talks = sql("compare/talks") if turns.exists() else sql("compare/no_talks")
    trials = sql("turns/trials").format(turns=f"read_parquet({literal(turns)})", cases=f"{side}.cases")
    connection.execute(talks.format(side=side, catalog=catalog, turns=literal(turns), trials=trials))


def models_of(connection: DuckDBPyConnection, side: str) -> list[dict[str, Any]]:
    """Return ``model_id, model_key, name, version`` of the models that took part in one side's run.

    Args:
        side: ``baseline`` or ``candidate``.
    """
    return records(connection, sql("compare/models").format(side=side))


def metrics_of(connection: DuckDBPyConnection, side: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics of one side, by evaluator and metric.

    Args:
        side: ``baseline`` or ``candidate``.
    """
    lines = records(connection, sql("compare/metrics").format(side=side))
    return {(line["evaluator"], line["metric"]): line for line in lines}


def pair_rows(connection: DuckDBPyConnection, baseline_model: int, candidate_model: int) -> int:
    """Create the table ``row_pairs`` of two models, their rows case by case, and return the number of cases."""
    connection.execute(
        sql("compare/rows").format(
            case_fields=", ".join(_CASE_FIELDS),
            answer_fields=", ".join(_ANSWER_FIELDS),
            baseline_model=baseline_model,
            candidate_model=candidate_model,
            changed=_differ(_CASE_FIELDS),
            same=f"NOT ({_differ(_ANSWER_FIELDS)})",
        )
    )
    return int(connection.execute("SELECT count(*) FROM row_pairs").fetchall()[0][0])


def _differ(fields: tuple[str, ...]) -> str:
    """Return the condition that some field differs."""
    return " OR ".join(f"ours.{field} IS DISTINCT FROM theirs.{field}" for field in fields)


def count_answers(connection: DuckDBPyConnection, pair: ModelPair) -> Answers:
    """Count the cases of the ``row_pairs`` by whether both sides gave the same answer."""
    return Answers(pair, **records(connection, sql("compare/answers"))[0])


def pair_values(
    connection: DuckDBPyConnection, metrics: Sequence[tuple[tuple[int, int], Mapping[str, Any]]]
) -> list[tuple[CountedOutcomes, Values]]:
    """Pair the values of some metrics over the ``row_pairs``: the outcomes of the cases, and the pairs, of each.

    Args:
        metrics: Of each metric the ids in the baseline's and the candidate's run, and its line: ``low``, ``high`` and
            ``higher_is_better``.
    """
    ends = [_ends(line) for _, line in metrics]
    columns: dict[str, list[Any]] = {
        "place": list(range(len(metrics))),
        "baseline_metric": [baseline for (baseline, _), _ in metrics],
        "candidate_metric": [candidate for (_, candidate), _ in metrics],
        "worst": [worst for worst, _ in ends],
        "best": [best for _, best in ends],
    }
    found: list[list[dict[str, Any]]] = [[] for _ in metrics]
    with lines_shown(connection, "compared", columns):
        connection.execute(sql("compare/values"))
        for line in records(connection, sql("compare/counts")):
            found[line["place"]].append(line)
    counted = [_counted(lines, bounded=worst is not None) for lines, (worst, _) in zip(found, ends, strict=True)]
    return list(zip(counted, _read_values(connection, len(metrics)), strict=True))


def _ends(metric: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the worst and the best value of a metric, if its range has ends."""
    if not abs(metric["high"] - metric["low"]) < float("inf"):
        return None, None
    return (metric["low"], metric["high"]) if metric["higher_is_better"] else (metric["high"], metric["low"])


def _counted(lines: Sequence[Mapping[str, Any]], *, bounded: bool) -> CountedOutcomes:
    found = {"pairs": 0, "unscored": 0, "not_applicable": 0, "changed": 0, "only_baseline": 0, "only_candidate": 0}
    reasons: dict[str, int] = {}
    worst, best, same, others = 0.0, 0.0, 0, 0
    for line in lines:
        found[line["state"]] += line["n"]
        if line["state"] == "pairs":
            same += line["same_answers"]
        if line["state"] in ("pairs", "unscored"):
            others += line["n"] - line["same_answers"]
        if line["state"] != "unscored":
            continue
        worst += line["if_worst"] or 0.0
        best += line["if_best"] or 0.0
        for side in SIDES:
            if line[f"{side}_reason"]:
                reason = f"{side}: {line[f'{side}_reason']}"
                reasons[reason] = reasons.get(reason, 0) + line["n"]
    coverage = Coverage(**found, same_answers=same, reasons=reasons)
    return CountedOutcomes(coverage, worst if bounded else None, best if bounded else None, same=not others)


def _read_values(connection: DuckDBPyConnection, metrics: int) -> list[Values]:
    """Read the pairs of ``value_pairs`` by metric."""
    columns = connection.execute(sql("compare/pairs")).fetchnumpy()
    ends = np.searchsorted(columns.pop("place"), np.arange(metrics), side="right")
    return [
        Values(
            cases=np.asarray(part["case_no"], dtype=np.int64),
            baseline=np.asarray(part["baseline"], dtype=np.float64),
            candidate=np.asarray(part["candidate"], dtype=np.float64),
            clusters=number_clusters(np.asarray(part["family"], dtype=np.int64)),
        )
        for first, end in zip((0, *ends[:-1]), ends, strict=True)
        for part in [{name: values[first:end] for name, values in columns.items()}]
    ]


def number_clusters(family: Ints) -> Ints | None:
    """Number clusters from 0 without gaps; a case of family -1 is a cluster of its own. ``None`` where all are."""
    alone = family < 0
    singles = int(alone.sum())
    distinct, of_families = numbered(family[~alone])
    if singles + len(distinct) == len(family):
        return None
    clusters = np.empty(len(family), dtype=np.int64)
    clusters[alone] = np.arange(singles)[::-1]
    clusters[~alone] = singles + of_families
    return clusters


def fill_texts(connection: DuckDBPyConnection, rows: Mapping[int, ChangedRow], metric: MetricInfo) -> list[ChangedRow]:
    """Return changed rows with their keys, texts and first failing turns, in their order.

    Args:
        rows: The rows by the number of their case.
        metric: What they changed sides on.
    """
    if not rows:
        return []
    with lines_shown(connection, "wanted", {"case_no": list(rows)}):
        turns = {side: sql("compare/first_failing_turns").format(side=side) for side in SIDES}
        names = ("evaluator", "metric", "higher_is_better", "threshold")
        found = records(
            connection,
            sql("compare/texts").format(most=MOST_TEXT, **turns),
            {name: getattr(metric, name) for name in names},
        )
        lines = {line.pop("case_no"): line for line in found}
    return [replace(row, **lines[case]) for case, row in rows.items()]
