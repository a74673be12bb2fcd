"""Comparisons across a change of the judge, which cannot be made, and what judging the baseline again takes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.registry import find
from leadline.evaluators.ground.errors import LeadlineError
from leadline.evaluators.ground.text import count
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.tasks.compare.metric_choice import Pairing
from leadline.tasks.compare.run_pair import metrics_of
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.drift.run_judges import JUDGES
from leadline.tasks.judges.drift.scores_after_change import put_to_changed
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EPOCH: Final = re.compile(r"judge(?:\.members\.\d+\.judge)?\.epoch: (.*)")
_MOST_NAME: Final = 200


def across_changes(
    connection: DuckDBPyConnection, pairings: Sequence[Pairing], baseline: Run, candidate: Run, *, allowed: bool
) -> list[Pairing]:
    """Return the metrics to compare; those whose judge changed between the runs say so, and what would mend it.

    A judge changed where its epoch differs, or where one of the runs has scores of it from when it had changed.

    Args:
        connection: Both runs, from :func:`leadline.tasks.compare.run_pair.open_sides`.
        pairings: The metrics.
        baseline: The run to compare with.
        candidate: The run that is compared.
        allowed: Whether differently configured metrics may be compared.
    """
    if allowed or baseline.id == candidate.id:
        return list(pairings)
    changed = _changed(baseline) ^ _changed(candidate)
    if not changed and not any(_EPOCH.fullmatch(line) for pairing in pairings for line in pairing.differences):
        return list(pairings)
    ours = metrics_of(connection, "baseline")
    return [_told(pairing, ours, baseline, candidate, changed) for pairing in pairings]


def _changed(run: Run) -> frozenset[tuple[str, int]]:
    """Return keys and epochs of the judges some of whose scores a run has although they had changed."""
    record = run.read()
    found: Mapping[str, Mapping[str, Any]] = record.get(JUDGES) or {}
    reused = {(judge["key"], judge["epoch"]) for judge in found.values() if judge.get("reused")}
    return put_to_changed(record) | reused


def _told(
    pairing: Pairing,
    ours: Mapping[tuple[str, str], Mapping[str, Any]],
    baseline: Run,
    candidate: Run,
    changed: frozenset[tuple[str, int]],
) -> Pairing:
    line = ours.get((pairing.metric.evaluator, pairing.metric.metric))
    if line is None or pairing.outcome == "one_sided":
        return pairing
    epochs = next((found[1] for text in pairing.differences if (found := _EPOCH.fullmatch(text))), "")
    if epochs:
        what = f"epoch {epochs.replace('none', '0')}"
    elif pairing.sides is not None and _judges_of(line) & changed:
        what = "one of them has scores of it although it had changed"
    else:
        return pairing
    again = _again(line, baseline, candidate)
    obstacle = f"The judge changed between the two runs ({what}): judge the baseline again, {again}."
    return replace(pairing, sides=None, obstacle=obstacle, outcome="incomparable")


def _judges_of(line: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Return the keys and epochs of the judges that a metric's evaluator asks."""
    asked: Mapping[str, Any] = json.loads(line["identity"]).get("judge") or {}
    judges = [member["judge"] for member in asked.get("members", ())] or [asked]
    return frozenset(
        (digest({name: value for name, value in judge.items() if name != "epoch"}), int(judge.get("epoch", 0)))
        for judge in judges
    )


def _again(line: Mapping[str, Any], baseline: Run, candidate: Run) -> str:
    """Say how many calls it takes to judge a run's rows again, at what price, and by which command."""
    calls = math.ceil((line["reused"] + line["computed"]) * _calls_per_row(line))
    prices = [_price_of_call(run, line["evaluator"]) for run in (candidate, baseline)]
    price = next((price for price in prices if price is not None), None)
    money = "at an unknown price" if price is None else f"about ${_rounded(calls * price)}"
    source = " ".join(str(baseline.read().get("dataset_source") or "").split())[:_MOST_NAME]
    return f"{count(calls, 'call')}, {money}: leadline evaluate {source or 'DATASET'}"


def _calls_per_row(line: Mapping[str, Any]) -> float:
    kind = find(line["evaluator"].partition("#")[0])
    try:
        evaluator = kind(kind.parameters.build(line["evaluator"], json.loads(line["params"]))) if kind else None
    except LeadlineError:  # the parameters of another version of it
        return 1.0
    return evaluator.calls_per_row() if isinstance(evaluator, JudgeEvaluator) else 1.0


def _price_of_call(run: Run, evaluator: str) -> float | None:
    """Return the mean price of an evaluator's calls in a run, ``None`` where there were none or it is unknown."""
    made: Mapping[str, Any] = run.read().get("judge_calls") or {}
    for part in made.get("by_evaluator", ()):
        if part["evaluator"] == evaluator and part["answered"] and not part["unknown_price"]:
            return float(part["cost_usd"]) / int(part["answered"])
    return None


def _rounded(usd: float) -> str:
    return f"{usd:.2f}" if usd >= 0.1 or not usd else f"{usd:.1g}"
