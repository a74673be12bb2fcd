"""Intervals and verdicts of a run that stopped before all was judged, and what its reader is told.

An ordinary interval is too narrow where somebody stopped because of what it showed. The interval of an e-process holds
whenever one stops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from leadline.evaluators.ground import listing, percent
from leadline.tasks.db import records, sql
from leadline.tasks.policy.policy import Policy, Role
from leadline.tasks.statistics.early_stopping import ALWAYS_VALID, always_valid_interval
from leadline.tasks.statistics.statistics import Interval, Judged, verdict
from leadline.tasks.stopping.gate_questions import GateQuestion, is_bounded
from leadline.tasks.stopping.looks import Seen, read_seen
from leadline.tasks.stopping.waves import WaveOutcome

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def give_valid_intervals(connection: DuckDBPyConnection, wave: int, policy: Policy) -> None:
    """Replace the intervals and verdicts of judged means by those that hold although judging stopped early.

    They are intervals of the mean over the whole dataset. A metric whose range has no two ends keeps its ordinary one.

    Args:
        connection: The run, aggregated.
        wave: The last wave that was judged.
        policy: The gate's policy.
    """
    metrics = {
        line["metric_id"]: line for line in records(connection, sql("stopping/judged_metrics")) if is_bounded(line)
    }
    lines = [
        line
        for line in records(connection, "SELECT * FROM aggregates WHERE n_scored > 0 ORDER BY metric_id, model_id")
        if line["metric_id"] in metrics
    ]
    asked = [
        GateQuestion(line["metric_id"], line["model_id"], "", passes, 0.0, None, 0, 0.0)
        for line in lines
        for passes in (False, True)
    ]
    seen = read_seen(connection, asked, wave)
    decided = {
        (line["metric_id"], line["model_id"], line["question"] == "passes"): line["decision"]
        for line in records(connection, sql("stopping/decided"), {"wave": wave})
    }
    for place, line in enumerate(lines):
        metric = metrics[line["metric_id"]]
        low, high = _on_scale(metric, _interval(seen[2 * place]))
        pass_low, pass_high = _interval(seen[2 * place + 1])
        found = decided.get((line["metric_id"], line["model_id"], metric["role"] == Role.MUST), "open")
        found = found if policy.problems == "grouped" else "open"
        if decided.get((line["metric_id"], line["model_id"], True)) == "fail" and metric["role"] != Role.MUST:
            pass_high = min(pass_high, math.nextafter(metric["min_pass_share"], 0))
        new = {
            "ci_low": low,
            "ci_high": high,
            "pass_low": None if line["n_pass"] is None else pass_low,
            "pass_high": None if line["n_pass"] is None else pass_high,
            "verdict": _verdict(metric, line, Interval(low, high, ALWAYS_VALID), found),
        }
        connection.execute(sql("stopping/give_interval"), {**new, "method": ALWAYS_VALID, **_key(line)})


def _key(line: dict[str, Any]) -> dict[str, int]:
    return {"metric_id": line["metric_id"], "model_id": line["model_id"]}


def _interval(seen: Seen) -> tuple[float, float]:
    return always_valid_interval(seen.good, seen.scored, seen.clusters, largest=seen.largest)


def _on_scale(metric: dict[str, Any], interval: tuple[float, float]) -> tuple[float, float]:
    """Return an interval on the scale of a metric from one between its worst value, 0, and its best, 1."""
    width = metric["high"] - metric["low"]
    if metric["higher_is_better"]:
        return metric["low"] + interval[0] * width, metric["low"] + interval[1] * width
    return metric["high"] - interval[1] * width, metric["high"] - interval[0] * width


def _verdict(metric: dict[str, Any], line: dict[str, Any], interval: Interval, decided: str) -> str | None:
    if decided != "open":
        return decided
    if metric["role"] == Role.MUST and line["n_pass"] is not None:
        return str(line["verdict"]) if line["verdict"] == "fail" else "inconclusive"
    coverage = line["n_scored"] / (line["n_scored"] + line["n_unscored"])
    judged = Judged(line["value"], interval, line["if_worst"], line["if_best"], coverage)
    return verdict(judged, metric["threshold"], higher_is_better=metric["higher_is_better"])


def in_words(outcome: WaveOutcome, gate: str) -> str:
    """Return for people what was decided when, and what that saved.

    Args:
        outcome: What was decided.
        gate: The gate's decision, which may rest on other metrics too.
    """
    cases = f"{outcome.clusters:,} of {outcome.all_clusters:,} cases"
    if not outcome.early:
        return f"Judged all {outcome.all_clusters:,} cases: {_why_all(outcome)}."
    what = outcome.decision.upper()
    decided = f"Decided {what}" if outcome.decision == gate else f"What judges say was decided ({what})"
    decided += f" against run {outcome.against}" if outcome.against else ""
    failed = f" by {listing(outcome.failed, most=3)}" if outcome.decision == "fail" and outcome.failed else ""
    share = percent(outcome.clusters / outcome.all_clusters)
    money = f", ${outcome.saved_usd:.2f}" if outcome.saved_usd else ""
    sure = "judging the rest would change this" if outcome.gate_asked else "such a decision is wrong"
    odds = f"{sure} in at most {100 * outcome.level:g} of 100 runs"
    if outcome.certain:
        odds = "whatever judges say of the rest does not change this"
    return (
        f"{decided}{failed} after {cases} ({share}): {odds}. "
        f"Saved about {outcome.all_clusters - outcome.clusters:,} cases{money}. "
        "The same command with --stop-when never judges the rest."
    )


def _why_all(outcome: WaveOutcome) -> str:
    if not outcome.gate_asked and not outcome.against:
        return outcome.open_ends or "there is nothing to compare with"
    if outcome.waves < 2:
        return "they are too few to stop before"
    if outcome.open:
        return f"{listing(outcome.open, most=3)} could not be decided before"
    if outcome.gate_asked and outcome.open_ends:
        return f"{outcome.open_ends} can fail the gate too, so that a pass takes all of them"
    return "it could not be decided before"
