"""A run in plain values: its findings, what each row must or should hold, and all about one of its cases."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import open_run, records, show_row_scores, sql
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_JSON_COLUMNS: Final = ("attrs", "reasons", "metadata", "evidence", "flags", "messages", "history")
_OUTCOMES: Final = ("failed", "unscored", "scored", "passed", "not_applicable")
"""Outcomes of a row on a metric; ``scored`` is a value without a threshold."""


def overview(store: Store, run: Run) -> dict[str, Any]:
    """Return a run's record with its leaderboards, problems and insights.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    with open_run(store, run, read_only=True) as connection:
        names = (
            "board", "corrections", "certificates", "trial_spread", "flip_rates", "flip_causes", "problems", "insights",
        )  # fmt: skip
        found = {name: _decoded(records(connection, sql(f"show/{name}"))) for name in names}
    return summary(run) | found


def board_and_problems(store: Store, run: Run, most: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Return a run's leaderboard, its first problems and how many it has.

    Args:
        most: Problems at most.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    with open_run(store, run, read_only=True) as connection:
        problems, total = _page(
            connection, sql("case_list/problems"), {"severity": None, "model": None}, limit=most, offset=0
        )
        return _decoded(records(connection, sql("show/board"))), problems, total


def case(store: Store, run: Run, key: str) -> dict[str, Any]:
    """Return a case with each model's answer and every score of it, with what the score rests on.

    Raises:
        UsageError: The run's dataset has no such case.
    """
    with open_run(store, run, read_only=True) as connection:
        return case_in(connection, run, key)


def case_in(connection: DuckDBPyConnection, run: Run, key: str) -> dict[str, Any]:
    """Return the same as :func:`case` from a run's database that is open."""
    cases = _decoded(records(connection, sql("show/case"), [key]))
    if not cases:
        near = [line["case_key"] for line in records(connection, sql("show/near"), [key])]
        raise UsageError(
            f"Run {run.id} has no case {key!r}.",
            hint=f"The nearest: {', '.join(near)}." if near else "",
            code=ErrorCode.QUERY_NO_CASE,
        )
    found = {
        name: _decoded(records(connection, sql(f"show/{name}"), [cases[0]["case_id"]]))
        for name in ("answers", "scores", "evidence")
    }
    why = {(line.pop("row_id"), line.pop("evaluator"), line.pop("trial")): line for line in found["evidence"]}
    answers = {answer.pop("row_id"): answer | {"scores": []} for answer in found["answers"]}
    for score in found["scores"]:
        row_id = score.pop("row_id")
        reasons = why.get((row_id, score["evaluator"], score["trial"]), {})
        answers[row_id]["scores"].append(score | {name: value for name, value in reasons.items() if value})
    return cases[0] | {"run": run.id, "answers": list(answers.values())}


def _decoded(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for line in lines:
        for name in _JSON_COLUMNS:
            if isinstance(line.get(name), str):
                line[name] = json.loads(line[name])
    return lines


@dataclass(frozen=True, slots=True)
class RowCheck:
    """One metric of one answer, held against its threshold.

    Attributes:
        question: The case's question, ``None`` where it has none.
        role: ``must`` or ``should``.
        share: Whether the value is 0 or 1.
        threshold: Value that separates good from bad; it is good itself.
        status: ``scored`` or ``unscored``.
        value: The value, the mean of the trials; ``None`` where it is unscored.
        rejudged: Whether it passed in the baseline with the same answer, so that the instrument changed its mind.
    """

    case: str
    model: str
    question: str | None
    evaluator: str
    metric: str
    name: str
    role: str
    share: bool
    higher_is_better: bool
    threshold: float
    status: str
    reason: str | None
    value: float | None
    rejudged: bool

    @property
    def key(self) -> str:
        """The metric among all: ``evaluator.metric``."""
        return f"{self.evaluator}.{self.metric}"

    def passes(self, value: float) -> bool:
        """Return whether a value satisfies the threshold."""
        return value >= self.threshold if self.higher_is_better else value <= self.threshold

    @property
    def failed(self) -> bool:
        """True if it was measured and misses its threshold."""
        return self.value is not None and not self.passes(self.value)


def row_checks(store: Store, run: Run) -> Mapping[tuple[str, str], tuple[RowCheck, ...]]:
    """Return the checks of each answer of a completed run, by the keys of its case and its model.

    What a row lacks the inputs for is no check of it, nor is a metric without a threshold, of the whole dataset, or
    one that is information by the run's policy.

    Raises:
        UsageError: The run has no results, or another version made it.
    """
    with open_run(store, run, read_only=True) as connection:
        show_row_scores(connection)
        answers = connection.execute(sql("checks/answers")).fetchall()
        checks = [RowCheck(**line) for line in records(connection, sql("checks/rows"))]
    found: defaultdict[tuple[str, str], list[RowCheck]] = defaultdict(list)
    for check in checks:
        found[check.case, check.model].append(check)
    return {(case, model): tuple(found[case, model]) for case, model in answers}


def list_cases(
    store: Store,
    run: Run,
    *,
    evaluator: str | None = None,
    metric: str | None = None,
    model: str | None = None,
    outcome: str | None = None,
    problem: int | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of a run's answers with their values, and how many there are in all.

    Args:
        metric: This metric; by default the primary one of each evaluator.
        model: Only answers of this model, by its key.
        outcome: Only those with this outcome, one of :data:`_OUTCOMES`.
        problem: Only the rows of the problem of this number.
        limit: Lines at most.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    asked = {"evaluator": evaluator, "metric": metric, "model": model, "outcome": outcome, "problem": problem}
    with open_run(store, run, read_only=True) as connection:
        return _page(connection, sql("case_list/cases"), asked, limit, offset)


def list_problems(
    store: Store, run: Run, *, severity: str | None = None, model: str | None = None, limit: int, offset: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of a run's problems with the keys of their first cases, and how many there are in all.

    Args:
        severity: Only those of this severity.
        model: Only those of this model, by its key.
        limit: Lines at most.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    with open_run(store, run, read_only=True) as connection:
        return _page(connection, sql("case_list/problems"), {"severity": severity, "model": model}, limit, offset)


def _page(
    connection: DuckDBPyConnection, statement: str, asked: dict[str, Any], limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    lines = records(connection, statement, asked | {"limit": limit, "offset": offset})
    totals = [line.pop("total") for line in lines]
    return lines, totals[0] if totals else offset
