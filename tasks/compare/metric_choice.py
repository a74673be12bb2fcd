"""The choice of metrics to compare: those tested, those only shown, and those that cannot be compared.

The policy's roles decide. *must* and *should* metrics are tested. Metrics that are information are shown, since a
verdict over many metrics that hardly matter decides nothing. Of evaluators that look alike the preferred one is tested.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.core import find
from leadline.evaluators.core.suites import folded
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.tasks.analyse.gather import run_threshold
from leadline.tasks.compare.results import MetricInfo
from leadline.tasks.compare.run_pair import metrics_of
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.drift.judge_standing import put_to_changed
from leadline.tasks.policy.policy import Policy, Role
from leadline.tasks.store.store import JUDGES, Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.compare.options import Options


Line: TypeAlias = Mapping[str, Any]
Lines: TypeAlias = Mapping[tuple[str, str], Line]

_MOST_LINES: Final = 20
_MOST_TEXT: Final = 120
_EPOCH: Final = re.compile(r"judge(?:\.members\.\d+\.judge)?\.epoch: (.*)")
_MOST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Pairing:
    """One metric of both runs.

    Attributes:
        sides: Its lines of the table ``metrics`` in the baseline's and the candidate's run, if it can be compared.
        counted: Ids, in either run, of the metric whose rows are counted: its own, or where it has no value per row
            that of its evaluator's first metric that has.
        over_dataset: Whether it is computed over all rows at once.
        obstacle: Why it cannot be compared, or ``""``.
        untested: Why it is shown and not tested, or ``""``.
    """

    metric: MetricInfo
    sides: tuple[Line, Line] | None = None
    counted: tuple[int, int] = (0, 0)
    over_dataset: bool = False
    differences: tuple[str, ...] = ()
    obstacle: str = ""
    outcome: Literal["incomparable", "one_sided", "not_applicable"] = "incomparable"
    role: str = Role.SHOULD.value
    untested: str = ""
    notes: tuple[str, ...] = ()


def pair_metrics(connection: DuckDBPyConnection, options: Options) -> list[Pairing]:
    """Return the chosen metrics, matched by evaluator and metric.

    A metric that only one of the runs measured has nothing to be compared with: it is listed, and counts for nothing.

    Args:
        connection: Both runs, from :func:`leadline.tasks.compare.run_pair.open_sides`.
        options: The metrics to compare, the policy, and whether differently configured ones may be.

    Raises:
        UsageError: A metric was named that neither run has.
    """
    ours, theirs = (_ruled(metrics_of(connection, side), options.policy) for side in ("baseline", "candidate"))
    known = {**ours, **theirs}
    found = [
        _pair(ours.get(key), theirs.get(key), (ours, theirs), allowed=options.allow_different_configurations)
        for key in _chosen(known, options)
    ]
    if not options.metrics and not options.all_metrics:
        found = [replace(pairing, untested=why) for pairing, why in zip(found, _untested(found), strict=True)]
    return found if options.information else [pairing for pairing in found if not pairing.untested]


def without_relative(pairings: Iterable[Pairing], *, one_run: bool) -> list[Pairing]:
    """Return metrics of which those are not compared that say how a model does among the models of its run.

    With other models in a run, or other answers of theirs, a model is preferred less or more often though its own
    answers are the same.

    Args:
        one_run: Whether two models of one run are compared, which met the same rivals; then only what is fitted to all
            models at once is left out.
    """
    return [_relative(pairing, one_run=one_run) for pairing in pairings]


def _relative(pairing: Pairing, *, one_run: bool) -> Pairing:
    kind = find(pairing.metric.evaluator.partition("#")[0])
    if pairing.sides is None or kind is None or not kind.strength_metric:
        return pairing
    if one_run and pairing.metric.metric != kind.strength_metric:
        return pairing
    words = "It says how a model does among the models of its own run, and nothing beside another run."
    return replace(pairing, sides=None, obstacle=words, outcome="not_applicable")


def _ruled(lines: Lines, policy: Policy | None) -> Lines:
    """Return metrics with the roles and thresholds of another policy than their run's."""
    return {key: _ruled_line(line, policy) for key, line in lines.items()} if policy else lines


def _ruled_line(line: Line, policy: Policy) -> Line:
    kind = find(line["evaluator"].partition("#")[0])
    if kind is None:
        return line
    try:
        evaluator = kind(kind.parameters.build(line["evaluator"], json.loads(line["params"])))
    except UsageError:  # the parameters of another version of it
        return line
    for metric in evaluator.metrics:
        if metric.key == line["metric"]:
            rule = policy.rule(evaluator.spec, metric)
            return {**line, "role": rule.role.value, "threshold": run_threshold(evaluator, metric, rule)}
    return line


def _untested(pairings: Iterable[Pairing]) -> Iterator[str]:
    """Yield for each metric why it is not tested, ``""`` if it is."""
    found = list(pairings)
    instead = folded(
        pairing.metric.evaluator for pairing in found if pairing.sides and pairing.role != Role.INFORMATION
    )
    for pairing in found:
        if pairing.role == Role.INFORMATION:
            yield "by the policy it is information"
        elif pairing.metric.evaluator in instead:
            yield f"{instead[pairing.metric.evaluator]} answers the same question and is tested"
        else:
            yield ""


def _chosen(known: Lines, options: Options) -> Iterator[tuple[str, str]]:
    names = {f"{evaluator}.{metric}" for evaluator, metric in known} | {evaluator for evaluator, _ in known}
    for name in options.metrics:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(names)) or 'none'}."
            raise UsageError(f"Neither run has the metric {name!r}.", hint=hint, code=ErrorCode.COMPARE_NO_METRIC)
    primary = {evaluator for (evaluator, _), line in known.items() if line["is_primary"]}
    seen: set[str] = set()
    for (evaluator, metric), line in known.items():
        if options.metrics:
            wanted = evaluator in options.metrics or f"{evaluator}.{metric}" in options.metrics
        else:
            first = evaluator not in primary and evaluator not in seen
            wanted = options.all_metrics or line["is_primary"] or first or line["role"] != Role.INFORMATION
        seen.add(evaluator)
        if wanted:
            yield evaluator, metric


def _pair(baseline: Line | None, candidate: Line | None, lines: tuple[Lines, Lines], *, allowed: bool) -> Pairing:
    if baseline is None or candidate is None:
        has, lacks, line = (
            ("candidate", "baseline", candidate) if baseline is None else ("baseline", "candidate", baseline)
        )
        obstacle = f"Only the {has}'s run measured it, the {lacks}'s did not: there is nothing to compare."
        return Pairing(_info(line or {}), obstacle=obstacle, outcome="one_sided", role=(line or {})["role"])
    metric, found = _info(candidate), differences(baseline, candidate)
    obstacle, notes = "", []
    if baseline["higher_is_better"] != candidate["higher_is_better"]:
        obstacle = "The two runs disagree on which direction is better."
    elif found and not allowed:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        obstacle = f"The two runs measured it differently ({found[0]}{more}): score both in the same way."
    elif found:
        notes.append(f"{metric.key} was measured differently, as allowed: {'; '.join(found[:3])}.")
    if baseline["threshold"] != candidate["threshold"]:
        notes.append(
            f"{metric.key} had the threshold {baseline['threshold']} in the baseline's run; flips are counted by the "
            f"candidate's, {candidate['threshold']}."
        )
    return Pairing(
        metric=metric,
        sides=None if obstacle else (baseline, candidate),
        counted=(_counted(baseline, lines[0]), _counted(candidate, lines[1])),
        over_dataset=bool(candidate["dataset_level"] or candidate.get("pooled")),
        differences=found,
        obstacle=obstacle,
        role=candidate["role"],
        notes=tuple(notes),
    )


def _info(line: Line) -> MetricInfo:
    return MetricInfo(
        evaluator=line["evaluator"],
        metric=line["metric"],
        evaluator_name=line["evaluator_name"],
        name=line["name"],
        higher_is_better=line["higher_is_better"],
        low=line["low"],
        high=line["high"],
        threshold=line["threshold"],
        share=line["is_share"],
        dataset_level=line["dataset_level"],
        primary=line["is_primary"],
    )


def _counted(line: Line, lines: Lines) -> int:
    if line["dataset_level"]:
        for other in lines.values():
            if other["evaluator_id"] == line["evaluator_id"] and not other["dataset_level"]:
                return int(other["metric_id"])
    return int(line["metric_id"])


def differences(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences of two configurations of an evaluator, each as ``judge.model: a → b``.

    Args:
        baseline: Line of the evaluator: ``config`` (digest of its identity) and ``identity`` (JSON).
        candidate: The same of the other side.
    """
    if baseline["config"] == candidate["config"]:
        return ()
    ours, theirs = (dict(_leaves(json.loads(line["identity"]))) for line in (baseline, candidate))
    lines = [
        f"{path}: {_short(ours.get(path))} → {_short(theirs.get(path))}"
        for path in sorted({*ours, *theirs})
        if ours.get(path) != theirs.get(path)
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
    return tuple(lines) or (f"configuration: {baseline['config']} → {candidate['config']}",)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, value
        return
    for name, part in parts:
        yield from _leaves(part, f"{path}.{name}" if path else str(name))


def _short(value: Any) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def across_changes(
    connection: DuckDBPyConnection, pairings: Sequence[Pairing], baseline: Run, candidate: Run, *, allowed: bool
) -> list[Pairing]:
    """Return the metrics to compare; those whose judge changed between the runs say so, and what would mend it.

    A judge changed where its epoch differs, or where one of the runs has scores of it from when it had changed.

    Args:
        connection: Both runs, from :func:`leadline.tasks.compare.run_pair.open_sides`.
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
    return frozenset(
        (digest({name: value for name, value in judge.items() if name != "epoch"}), int(judge.get("epoch", 0)))
        for judge in _asked(line)
    )


def _asked(line: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the identities of the judges that a metric's evaluator asks: those of a jury, or the one."""
    asked: Mapping[str, Any] = json.loads(line["identity"]).get("judge") or {}
    return [member["judge"] for member in asked.get("members", ())] or [asked]


def _again(line: Mapping[str, Any], baseline: Run, candidate: Run) -> str:
    """Say how many calls it takes to judge a run's rows again, at what price, and by which command."""
    calls = math.ceil((line["reused"] + line["computed"]) * _calls_per_row(line)) * len(_asked(line))
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
