"""Problems of slices: rows with something in common on which a model is worse than on its others.

Two ways lead here. A slice differs from the rest by more than chance, all slices of the run considered (``slices.py``);
or the policy asks that a metric holds within each value of a column, and in some value it does not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, listing, number, one_line, percent
from leadline.tasks.analyse.findings.finding import MOST_ROWS, Finding
from leadline.tasks.analyse.findings.metric_problems import avid_code
from leadline.tasks.analyse.findings.severity import graded, passes
from leadline.tasks.analyse.slices import FALSE_DISCOVERIES, PERTURBATION, RETRIEVAL, slice_in_words
from leadline.tasks.db import lines_shown, records, sql
from leadline.tasks.policy.policy import Role
from leadline.tasks.statistics.statistics import ENOUGH_SEEN

if TYPE_CHECKING:
    from leadline.tasks.analyse.findings.finding import RunView

LEAST_DIFFERENCE: Final = 0.01
"""Smallest difference worth a sentence, as a share of the metric's range; many rows make smaller ones sure, too."""
MOST_PROBLEMS: Final = 5
"""Most problems of slices that nobody asked for; the table ``slices`` has all."""
MOST_CONSIDERED: Final = 200
"""Most lines that are compared for an overlap of their rows."""
SAME_ROWS: Final = 0.5
"""Share of the cases of two slices that they have in common, from which they are taken for one."""

Line = Mapping[str, Any]


def found_slices(view: RunView) -> list[dict[str, Any]]:
    """Return the lines of the table ``slices`` that surely and notably differ from the rest, the surest first.

    Each has ``worse``, true where the slice is the worse side.
    """
    params = {"most": MOST_CONSIDERED, "rate": FALSE_DISCOVERIES, "least": LEAST_DIFFERENCE}
    lines = records(view.connection, sql("slices/found"), params)
    for line in lines:
        line["worse"] = (line["difference"] < 0) == view.metrics[line["metric_id"]]["higher_is_better"]
    return lines


@dataclass(frozen=True, slots=True)
class Group:
    """Lines about nearly the same rows: the surest, and others that name another metric, model or column.

    Attributes:
        first: The line that speaks for all.
    """

    first: Line
    others: tuple[Line, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines, the surest first."""
        return self.first, *self.others


def grouped(view: RunView, lines: Sequence[Line]) -> list[Group]:
    """Put lines together whose rows are mostly the same; each group begins with its surest line.

    Args:
        lines: Lines of the table ``slices``, the surest first.
    """
    shared = _shared_cases(view, lines)
    groups: list[list[Line]] = []
    for line in lines:
        own = line["slice_column"], line["slice_value"]
        for group in groups:
            first = group[0]["slice_column"], group[0]["slice_value"]
            if own == first or shared.get((*own, *first), 0.0) >= SAME_ROWS:
                group.append(line)
                break
        else:
            groups.append([line])
    return [Group(group[0], tuple(group[1:])) for group in groups]


def _shared_cases(view: RunView, lines: Sequence[Line]) -> dict[tuple[str, ...], float]:
    """Return by pairs of slices which share of their cases they have in common."""
    slices = sorted({(line["slice_column"], line["slice_value"]) for line in lines})
    if len(slices) < 2:
        return {}
    columns, values = zip(*slices, strict=True)
    with lines_shown(view.connection, "wanted", {"slice_column": columns, "slice_value": values}):
        found = records(view.connection, sql("slices/overlaps"))
    return {
        tuple(line[name] for name in ("a_column", "a_value", "b_column", "b_value")): line["share"] for line in found
    }


def slice_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each group of slices on which some model is worse than on its other rows.

    Perturbations and outcomes of retrieval are left to their own problems.
    """
    lines = [
        line for line in found_slices(view) if line["worse"] and line["slice_column"] not in (PERTURBATION, RETRIEVAL)
    ]
    demanded = {(name, metric_id) for metric_id, rule in view.rules.items() for name in rule["slices"]}
    groups = grouped(view, [line for line in lines if (line["slice_column"], line["metric_id"]) not in demanded])
    for group in groups[:MOST_PROBLEMS]:
        yield _problem(view, group, more=max(0, len(groups) - MOST_PROBLEMS) if group is groups[0] else 0)


def _problem(view: RunView, group: Group, *, more: int) -> Finding:
    line = group.first
    metric = view.metrics[line["metric_id"]]
    where = slice_in_words(line["slice_column"], line["slice_value"])
    rows, models = worst_rows(view, line), sorted({each["model_id"] for each in group.lines} - {None})
    model_id = line["model_id"] if line["model_id"] is not None else (models[0] if len(models) == 1 else None)
    parts = [f"{_who(view, line)} worse on {where}: {against(view, line)}."]
    parts += others_in_words(view, group)
    if more:
        parts.append(f"{count(more, 'further slice')}: see the table of slices.")
    return view.finding(
        type=view.problem_type(metric["evaluator_id"]),
        kind="slice",
        severity=Severity.LOW if passes(metric, line["value"]) else Severity.MEDIUM,
        harm=_harm(view, line),
        description=" ".join(parts),
        actions="Read these answers together: the same cause may be behind all. Look for documents, instructions or "
        "examples that are missing for such questions; if they cannot be answered, have them declined.",
        row_ids=rows,
        metric=metric,
        model_id=model_id,
        avid=avid_code(view.evaluators[metric["evaluator_id"]]),
        **slice_attrs(view, group),
    )


def _who(view: RunView, line: Line) -> str:
    if line["model_id"] is None:
        return f"{'Both' if len(view.models) == 2 else f'All {len(view.models)}'} models together do"
    return f"{view.model_name(line['model_id'])} does"


def against(view: RunView, line: Line) -> str:
    """Return the value of a slice with its interval, and that of the other rows, in words."""
    metric = view.metrics[line["metric_id"]]
    shown = percent if metric["is_share"] else number
    interval = "" if line["ci_low"] is None else f", 95 % interval {shown(line['ci_low'])} to {shown(line['ci_high'])}"
    rest = "" if line["rest_value"] is None else f", against {shown(line['rest_value'])} on all others"
    name = f"{view.evaluator_name(metric['evaluator_id'])}" if metric["is_share"] else metric["name"]
    return f"{name} {shown(line['value'])} ({count(line['n_scored'], 'answer')}{interval}){rest}"


def others_in_words(view: RunView, group: Group) -> Iterator[str]:
    """Yield sentences on the other metrics, models and columns of a group."""
    line = group.first
    names = dict.fromkeys(
        view.metrics[each["metric_id"]]["name"] for each in group.others if each["metric_id"] != line["metric_id"]
    )
    if names:
        yield f"Likewise by {listing(names, most=4)}."
    alone = sorted({each["model_id"] for each in group.others} - {None, line["model_id"]})
    if alone:
        models = listing((view.model_name(model) for model in alone), most=4)
        yield f"Alone, too: {models}." if line["model_id"] is None else f"Also {models}."
    same = dict.fromkeys(
        slice_in_words(each["slice_column"], each["slice_value"])
        for each in group.others
        if (each["slice_column"], each["slice_value"]) != (line["slice_column"], line["slice_value"])
    )
    if same:
        yield f"Mostly the same cases: {listing(same, most=3)}."


def slice_attrs(view: RunView, group: Group) -> dict[str, Any]:
    """Return the attributes of a group of slices for programs."""
    line = group.first
    out = {
        name: line[name]
        for name in (
            "slice_column", "slice_value", "n_scored", "n_cases", "rest_value", "difference", "ci_low", "ci_high",
            "p_value", "q_value",
        )
    }  # fmt: skip
    metrics = dict.fromkeys(view.metrics[each["metric_id"]]["metric"] for each in group.others)
    metrics.pop(view.metrics[line["metric_id"]]["metric"], None)
    models = sorted({each["model_id"] for each in group.lines} - {None})
    same = sorted({(each["slice_column"], each["slice_value"]) for each in group.lines})
    return out | {
        "slice_score": line["value"],
        "other_metric_ids": list(metrics),
        "model_names": [view.model_name(model) for model in models],
        "slices": [{"column": column, "value": value} for column, value in same],
    }


def _harm(view: RunView, line: Line) -> float:
    """Return the weighted share of the answers that are bad because of a slice."""
    metric, weight = view.metrics[line["metric_id"]], view.rules[line["metric_id"]]["weight"]
    every = [view.aggregates[line["metric_id"], model] for model in view.models if line["model_id"] in (None, model)]
    scored = sum(aggregate["n_scored"] for aggregate in every)
    if line["n_pass"] is None:
        width = metric["high"] - metric["low"]
        lost = abs(line["difference"]) / width if 0 < width < float("inf") else 0.0
    else:
        outside = scored - line["n_scored"]
        passing = sum(aggregate["n_pass"] or 0 for aggregate in every) - line["n_pass"]
        lost = max(0.0, (passing / outside if outside else 1.0) - line["n_pass"] / line["n_scored"])
    return float(weight * lost * line["n_scored"] / scored) if scored else 0.0


def worst_rows(view: RunView, line: Line, *, best: bool = False) -> list[int]:
    """Return the rows of a slice that fail its metric, worst first; without a threshold, and if none fails, all.

    Args:
        best: Return the best rows instead, best first.
    """
    params = {name: line[name] for name in ("slice_column", "slice_value", "metric_id", "model_id")}
    lines = records(view.connection, sql("slices/worst_rows").format(most=MOST_ROWS), params | {"best": best})
    failing = [each["row_id"] for each in lines if each["fails"]]
    return failing if failing and not best else [each["row_id"] for each in lines]


# Slices that the policy names


def demanded_slice_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each metric and model that misses its limits within a value of a column of its rule."""
    measured = records(view.connection, sql("slices/demanded"))
    columns = {line["slice_column"] for line in measured}
    missing: defaultdict[str, list[int]] = defaultdict(list)
    for metric_id, rule in view.rules.items():
        for column in rule["slices"]:
            if column not in columns:
                missing[column].append(metric_id)
    for column, metric_ids in missing.items():
        yield _no_column(view, column, metric_ids)
    bad: defaultdict[tuple[int, int, str], list[Line]] = defaultdict(list)
    for line in measured:
        if _severity(view, line) is not None:
            bad[line["metric_id"], line["model_id"], line["slice_column"]].append(line)
    for lines in bad.values():
        yield _demanded(
            view, sorted(lines, key=lambda line: (_severity(view, line) is not Severity.HIGH, -_harm(view, line)))
        )


def _severity(view: RunView, line: Line) -> Severity | None:
    """Return how bad a slice is by its metric's rule: HIGH if it surely misses its limit, ``None`` if it keeps it."""
    metric, rule = view.metrics[line["metric_id"]], view.rules[line["metric_id"]]
    scored, threshold = int(line["n_scored"]), metric["threshold"]
    if not scored or threshold is None:
        return None
    if view.role(line["metric_id"]) is Role.MUST:
        if scored - line["n_pass"] <= view.tolerated(line["metric_id"], scored):
            return None
        sure = True
    else:
        if passes(metric, line["value"]):
            return None
        near, end = ("ci_high", "high") if metric["higher_is_better"] else ("ci_low", "low")
        told = math.isfinite(metric[end]) or line["n_cases"] * scored >= ENOUGH_SEEN * line["n_rows"]
        sure = told and line[near] is not None and not passes(metric, line[near])
    return graded(sure and scored >= rule["min_rows"])


def _demanded(view: RunView, lines: Sequence[Line]) -> Finding:
    first = lines[0]
    metric, model_id, column = view.metrics[first["metric_id"]], first["model_id"], first["slice_column"]
    evaluator_id, severity = metric["evaluator_id"], _severity(view, first) or Severity.MEDIUM
    shown = percent if metric["is_share"] else number
    limit = "at least" if metric["higher_is_better"] else "at most"
    values = [
        f"{one_line(line['slice_value'])} {shown(line['value'])} ({count(line['n_scored'], 'answer')})"
        for line in lines
    ]
    doubt = (
        "" if severity is Severity.HIGH else " This may be chance: the intervals reach the threshold, or rows are few."
    )
    return view.finding(
        type=view.problem_type(evaluator_id),
        kind="slice",
        severity=severity,
        harm=sum(_harm(view, line) for line in lines),
        description=f"{view.evaluator_name(evaluator_id)} must hold for each value of {one_line(column)}, {limit} "
        f"{shown(metric['threshold'])}; {view.model_name(model_id)} misses it for {listing(values, most=5)}.{doubt}",
        actions=f"Read the answers of these values of {one_line(column)} and improve what they have in common, or "
        "change the policy if it asks for too much.",
        row_ids=_joined(worst_rows(view, line) for line in lines),
        metric=metric,
        model_id=model_id,
        avid=avid_code(view.evaluators[evaluator_id]),
        demanded=True,
        **slice_attrs(view, Group(first, tuple(lines[1:]))),
    )


def _joined(rows: Iterable[Sequence[int]]) -> list[int]:
    """Return rows of several lists in turns, so that the first ones stand for all."""
    lists = [list(each) for each in rows]
    longest = max(map(len, lists), default=0)
    mixed = [each[place] for place in range(longest) for each in lists if place < len(each)]
    return list(dict.fromkeys(mixed))[:MOST_ROWS]


def _no_column(view: RunView, column: str, metric_ids: Sequence[int]) -> Finding:
    names = dict.fromkeys(view.evaluator_name(view.metrics[metric_id]["evaluator_id"]) for metric_id in metric_ids)
    return view.finding(
        type="dataset",
        kind="slice",
        severity=Severity.HIGH,
        fault="data",
        description=f"By the policy {listing(names, most=4)} must hold for each value of {one_line(column)}, but the "
        "dataset has no such column.",
        actions=f"Add {one_line(column)} to the metadata of the cases, or take it out of the policy.",
        slice_column=column,
    )
