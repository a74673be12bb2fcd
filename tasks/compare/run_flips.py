"""Flips between two runs: cases that one side passes and the other fails; without a threshold the largest changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leadline.tasks.compare.results import ChangedRow, MetricInfo, ModelPair
from leadline.tasks.compare.run_pair import Values, fill_texts
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Flips:
    """The flips of one metric: how many in each direction (``None`` without a threshold), and those that are shown."""

    passed_to_failed: int | None
    failed_to_passed: int | None
    shown: tuple[ChangedRow, ...]


def start_flips(connection: DuckDBPyConnection) -> None:
    """Create the table ``all_flips``, empty."""
    connection.execute(sql("compare/flips"))


def find_flips(
    connection: DuckDBPyConnection,
    values: Values,
    better: npt.NDArray[np.float64],
    metric: MetricInfo,
    models: ModelPair,
    shown: int,
) -> Flips:
    """Find the flips of one metric and add them to ``all_flips``.

    Args:
        connection: Both sides, with the ``row_pairs`` of the models.
        values: The metric.
        better: By how much the candidate is better on each case.
        metric: Its threshold and direction.
        shown: How many of each direction are returned with their texts, the largest changes first.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    if metric.threshold is None:
        lost, won, words = better < 0, better > 0, ("worse", "better")
    else:
        passed, passes = ((sign * side >= sign * metric.threshold) for side in (values.baseline, values.candidate))
        lost, won, words = passed & ~passes, ~passed & passes, ("passed_to_failed", "failed_to_passed")
        for chosen, word in zip((lost, won), words, strict=True):
            _keep(connection, values, chosen, word, metric, models)
    rows: dict[int, ChangedRow] = {}
    for chosen, word in zip((lost, won), words, strict=True):
        places = np.flatnonzero(chosen)
        for place in places[np.argsort(-np.abs(better[places]), kind="stable")][:shown]:
            sides = float(values.baseline[place]), float(values.candidate[place])
            rows[int(values.cases[place])] = ChangedRow("", word, *sides)
    texts = tuple(fill_texts(connection, rows))
    return Flips(None, None, texts) if metric.threshold is None else Flips(int(lost.sum()), int(won.sum()), texts)


def _keep(
    connection: DuckDBPyConnection,
    values: Values,
    chosen: npt.NDArray[np.bool_],
    word: str,
    metric: MetricInfo,
    models: ModelPair,
) -> None:
    if not chosen.any():
        return
    columns = {"case_no": values.cases, "baseline": values.baseline, "candidate": values.candidate}
    connection.register("flipped", {name: column[chosen] for name, column in columns.items()})
    connection.execute(
        sql("compare/flip_lines"),
        [metric.evaluator, metric.metric, models.baseline, models.candidate, word, metric.threshold],
    )
    connection.unregister("flipped")


def write_flips(connection: DuckDBPyConnection, path: Path) -> int:
    """Write all flips as CSV and return their number.

    Args:
        connection: Both runs, with the table ``all_flips``.
        path: The CSV file to write.
    """
    lines = "SELECT * EXCLUDE (baseline_row, candidate_row) FROM all_flips ORDER BY ALL"
    write_csv(connection, lines, path)
    (number,) = connection.execute("SELECT count(*) FROM all_flips").fetchall()[0]
    return int(number)
