"""Artifacts of a run in the Prefect UI: progress, then summary, leaderboard and the link to the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast
from uuid import UUID

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.events import emit_event

from leadline.evaluators.ground import count, rounded
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.prefect_steps import history_may_fail
from leadline.flows.prefect.report_links import run_link
from leadline.flows.prefect.server_outage import not_waiting
from leadline.flows.shared.judge_change import judge_changed
from leadline.flows.shared.settings import Gate
from leadline.tasks.db import open_run, records, sql
from leadline.tasks.judges.drift.run_judges import JUDGES
from leadline.tasks.runs.run_facts import SYMBOLS, tally_in_words
from leadline.tasks.runs.run_sentences import cost_line, gate_reason, scores_line, work_line
from leadline.tasks.store.store import Run, Store

_ENDINGS: Final[dict[Gate, str]] = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}

UNREACHABLE_REST_S: Final = 60.0
"""How long progress is not shown after the server could not be reached: each try takes seconds."""


class Progress:
    """A progress artifact that is updated at whole percents only."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._shown = 0
        self._rests_until = 0.0
        self._id: UUID | None = None
        with history_may_fail():
            start = create_progress_artifact(
                progress=0.0 if total else 100.0,
                key="leadline-progress",
                description=f"{count(total, 'row score')} to compute",
            )
            self._id = cast("UUID", start)

    def update(self, done: int) -> None:
        """Show that ``done`` row scores are computed."""
        percent = int(100 * done / self._total)
        if self._id is None or percent <= self._shown or time.monotonic() < self._rests_until:
            return
        with history_may_fail(), not_waiting():
            update_progress_artifact(self._id, progress=float(percent))
            self._shown = percent
            return
        self._rests_until = time.monotonic() + UNREACHABLE_REST_S


def publish_artifacts(store: Store, run: Run, result: EvaluateResult) -> None:
    """Publish the summary, the leaderboard, the work of each evaluator, the problems and the link to the report.

    Args:
        result: Its outcome.
    """
    with open_run(store, run, read_only=True) as connection:
        board = records(connection, sql("leaderboard"))
        work = records(connection, sql("evaluator_work"))
        problems = records(
            connection, "SELECT severity, type, description, actions FROM problems ORDER BY problem_id LIMIT 200"
        )
    seconds = run.read().get("evaluator_seconds") or {}
    link = run_link(store, run, result.report)
    devices = run.read().get("devices", ())
    create_markdown_artifact(_summary(result, link, devices), key="leadline-summary", description=f"Run {run.id}")
    create_table_artifact(
        [{key: rounded(value) for key, value in line.items()} for line in board],
        key="leadline-leaderboard",
        description="Primary metric of each evaluator by model, with 95 % interval and coverage",
    )
    create_table_artifact(
        [line | {"seconds": seconds.get(line["evaluator"], 0.0)} for line in work],
        key="leadline-evaluators",
        description="Work of each evaluator: rows, distinct scores found and computed, seconds but for shared models",
    )
    create_table_artifact(problems, key="leadline-problems", description="Problems, worst first")
    create_link_artifact(link, link_text="Report", key="leadline-report", description=str(run.id))
    _announce(run, result, link)
    for name, judge in (run.read().get(JUDGES) or {}).items():
        if judge["newly_changed"]:
            emit_event(**judge_changed(name, judge))


def _announce(run: Run, result: EvaluateResult, link: str) -> None:
    """Send the event ``leadline.gate.passed``, ``.failed`` or ``.inconclusive`` of a run that was to pass a gate."""
    config = run.read().get("config")
    if not isinstance(config, dict) or config.get("fail_on") == "never":
        return
    name = str(config.get("name") or Path(str(config.get("dataset", ""))).stem)
    emit_event(
        event=f"leadline.gate.{_ENDINGS[result.gate]}",
        resource={"prefect.resource.id": f"leadline.run.{run.id}", "prefect.resource.name": f"{name} ({run.id})"},
        payload={
            "gate": result.gate,
            "reason": result.gate_reason,
            "changed": result.changed,
            "worst": result.worst,
            "report": link,
        },
    )


def _summary(result: EvaluateResult, link: str, devices: Sequence[str] = ()) -> str:
    return "\n".join(
        [
            f"# {result.gate.upper()}",
            "",
            *([f"({result.gate_counted})", ""] if result.gate_counted else []),
            *([reason, ""] if (reason := gate_reason(result)) else []),
            *(f"- {SYMBOLS[each.outcome]} **{each.words}** {each.line}" for each in result.questions),
            "",
            "| | |",
            "|---|---|",
            f"| Scores | {scores_line(result)} |",
            f"| Rows | {work_line(result)} |",
            f"| Judge | {cost_line(result)} |",
            *([f"| Device of models | {', '.join(devices)} |"] if devices else []),
            f"| Problems | {tally_in_words(result.problems_by_fault)} |",
            f"| Report | <{link}> |"
            if link.startswith("http")
            else f"| Report | `{result.report_url or result.report}` |",
        ]
    )
