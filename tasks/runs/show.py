"""The findings of one run, and all about one of its cases, as plain values."""

from __future__ import annotations

import json
from typing import Any, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Run, Store

_JSON_COLUMNS: Final = ("attrs", "reasons", "metadata", "evidence", "flags")


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


def case(store: Store, run: Run, key: str) -> dict[str, Any]:
    """Return a case with each model's answer and every score of it, with what the score rests on.

    Args:
        key: Key of the case.

    Raises:
        UsageError: The run's dataset has no such case.
    """
    with open_run(store, run, read_only=True) as connection:
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
