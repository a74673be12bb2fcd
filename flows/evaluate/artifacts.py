"""Artifacts of an evaluation in Prefect's UI: summary, tables and the link to the report; and its events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import rounded
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.flows.shared.job import JobSteps
from leadline.flows.shared.judge_change import judge_changed
from leadline.flows.shared.settings import Gate
from leadline.tasks.db import open_run, records, sql
from leadline.tasks.runs.run_facts import SYMBOLS, tally_in_words
from leadline.tasks.runs.run_sentences import cost_line, gate_reason, scores_line, work_line
from leadline.tasks.store.store import JUDGES, Run, Store

_ENDINGS: Final[dict[Gate, str]] = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}


def publish_artifacts(steps: JobSteps, store: Store, run: Run, result: EvaluateResult) -> None:
    """Publish the summary, the leaderboard, the work of each evaluator, the problems and the link to the report.

    Args:
        steps: Keep the run's history.
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
    steps.show("leadline-summary", _summary(result, link, devices), f"Run {run.id}")
    steps.table(
        "leadline-leaderboard",
        [{key: rounded(value) for key, value in line.items()} for line in board],
        "Primary metric of each evaluator by model, with 95 % interval and coverage",
    )
    steps.table(
        "leadline-evaluators",
        [line | {"seconds": seconds.get(line["evaluator"], 0.0)} for line in work],
        "Work of each evaluator: rows, distinct scores found and computed, seconds but for shared models",
    )
    steps.table("leadline-problems", problems, "Problems, worst first")
    steps.link("leadline-report", link, "Report", str(run.id))
    _announce(steps, run, result, link)
    for name, judge in (run.read().get(JUDGES) or {}).items():
        if judge["newly_changed"]:
            steps.emit(**judge_changed(name, judge))


def _announce(steps: JobSteps, run: Run, result: EvaluateResult, link: str) -> None:
    """Send the event ``leadline.gate.passed``, ``.failed`` or ``.inconclusive`` of a run that was to pass a gate."""
    config = run.read().get("config")
    if not isinstance(config, dict) or config.get("fail_on") == "never":
        return
    name = str(config.get("name") or Path(str(config.get("dataset", ""))).stem)
    steps.emit(
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
