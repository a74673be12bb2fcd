"""Canaries: rows whose verdicts are known, put to the judge with every chunk before the chunk's own rows.

A canary file is a small dataset in any format; its rows have the scores that evaluators should give them in
``expected_scores``::

    {"case": "right", "model": "canary", "question": "…", "expected_answer": "…", "actual_answer": "…",
     "expected_scores": {"llamaindex.correctness": [4, 5], "databricks.correctness": 1}}

A key is an evaluator, for its primary metric, or ``EVALUATOR.METRIC``; a value is a number or ``[lowest, highest]``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Evaluator, asked_judge, find, get
from leadline.evaluators.data import NotApplicable, Reason, Row, Unscored
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.score.rows import read_rows
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import StoredScore
from leadline.tasks.store.store import Store

EXPECTED: Final = "expected_scores"
MOST: Final = 100
"""Rows of a canary file at most: they are asked with every chunk."""

_NAMED: Final = re.compile(r"[^#]+#[\w-]+")  # ID#NAME, an evaluator under a name of its own
_CLOSE: Final = 1e-6
_UNREADABLE: Final = (Reason.JUDGE_UNPARSEABLE, Reason.JUDGE_TRUNCATED)
"""Reasons for which a judge has failed a canary: an unreadable verdict on a plain case."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A row and its expected scores.

    Attributes:
        expected: Least and greatest value by evaluator and metric.
    """

    row: Row
    expected: Mapping[str, Mapping[str, tuple[float, float]]]


def load_canaries(store: Store, file: str, jobs: Sequence[EvaluatorJob]) -> tuple[str, tuple[Canary, ...]]:
    """Load a canary file into the store and return its digest and its canaries.

    Raises:
        UsageError: It has too many rows, expects no score of an evaluator of the run, or expects an impossible one.
        DatasetError: It is not a dataset.
    """
    loaded = load_dataset(store, file)
    if loaded.rows > MOST:
        raise _refusal(f"{file} has {loaded.rows:,} rows; canaries are asked with every chunk, so {MOST} are the most.")
    canaries = read_canaries(loaded.path, source=file)
    asked = {job.evaluator for job in jobs if job.lane == "judge"}
    if not any(asked & set(canary.expected) for canary in canaries):
        raise _refusal(
            f"No canary of {file} has an expected score for a judge of this run.",
            f"Write {EXPECTED} for one of: {', '.join(sorted(asked)) or 'an evaluator that asks a judge'}.",
        )
    return loaded.digest, canaries


def read_canaries(folder: Path, source: str = "The canary file") -> tuple[Canary, ...]:
    """Return the rows of a loaded dataset that have expected scores.

    Args:
        source: Name of the file for messages.

    Raises:
        UsageError: An expected score is not possible.
    """
    canaries = []
    for row in read_rows(folder):
        expected = row.metadata.get(EXPECTED)
        if expected is not None:
            canaries.append(Canary(row, _expected(expected, f"{source}: case {row.case!r}: {EXPECTED}")))
    return tuple(canaries)


def _expected(given: Any, where: str) -> dict[str, dict[str, tuple[float, float]]]:
    if isinstance(given, str):  # a cell of a CSV file
        try:
            given = json.loads(given)
        except ValueError:
            raise _refusal(f"{where} is not JSON.") from None
    if not isinstance(given, Mapping) or not given:
        raise _refusal(f"{where} must be an object.", 'Write: {"EVALUATOR": [LOWEST, HIGHEST]}')
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for key, value in given.items():
        evaluator, metric = _metric(str(key), where)
        out.setdefault(evaluator, {})[metric] = _interval(value, f"{where}: {key}")
    return out


def _metric(key: str, where: str) -> tuple[str, str]:
    """Return the evaluator and the metric that a key names."""
    if find(key) or _NAMED.fullmatch(key):
        primary = [metric.key for metric in get(key).spec.metrics if metric.primary and not metric.dataset_level]
        if len(primary) != 1:
            raise _refusal(f"{where}: {key} has no one primary metric.", "Write EVALUATOR.METRIC.")
        return key, primary[0]
    evaluator, _, metric = key.rpartition(".")
    metrics = [one.key for one in get(evaluator or key).spec.metrics if not one.dataset_level]
    if metric not in metrics:
        raise _refusal(f"{where}: {evaluator} has no metric {metric!r}.", f"Its metrics: {', '.join(metrics)}.")
    return evaluator, metric


def _interval(value: Any, where: str) -> tuple[float, float]:
    ends = value if isinstance(value, list | tuple) else [value, value]
    numbers = [end for end in ends if isinstance(end, bool | int | float) and math.isfinite(end)]
    if len(ends) != 2 or len(numbers) != 2 or numbers[0] > numbers[1]:
        raise _refusal(f"{where} must be a number, or [lowest, highest].")
    return float(numbers[0]), float(numbers[1])


def _refusal(message: str, hint: str = "") -> UsageError:
    return UsageError(message, hint=hint, code=ErrorCode.JUDGE_CANARIES)


def failed_by(canaries: Sequence[Canary], evaluators: Iterable[Evaluator], ctx: EvalContext) -> dict[str, str]:
    """Ask the judges for the canaries' scores, and return a message for each judge that failed, by its key.

    One score outside of its expected range is a failure. A judge that cannot be reached or paid for has not failed:
    the chunk's rows will be unscored for the same reason.

    Args:
        ctx: The run's settings and shared resources, with a cache salt of the chunk's own.
    """
    wanted = [
        (evaluator, mine)
        for evaluator in evaluators
        if isinstance(evaluator, JudgeEvaluator)
        and (mine := [canary for canary in canaries if evaluator.spec.id in canary.expected])
    ]
    asks = [Ask(evaluator, [canary.row for canary in mine]) for evaluator, mine in wanted]
    wrong: dict[str, list[str]] = {}
    for (evaluator, mine), scored in zip(wanted, score_together(asks, ctx), strict=True):
        for canary, score in zip(mine, scored.scores, strict=True):
            wrong.setdefault(judge_of(evaluator, ctx), []).extend(_wrong(evaluator.spec.id, canary, score))
    return {judge: _message(judge, faults) for judge, faults in wrong.items() if faults}


def judge_of(evaluator: Evaluator, ctx: EvalContext) -> str:
    """Return the key of the judge that an evaluator asks, ``""`` where there is none."""
    config = asked_judge(evaluator, ctx)
    return config.key if config else ""


def _wrong(evaluator: str, canary: Canary, score: StoredScore) -> list[str]:
    """Return what is wrong with the score of a canary, metric by metric."""
    out = []
    for metric, (low, high) in canary.expected[evaluator].items():
        value = score.values[metric]
        if isinstance(value, Unscored):
            fault = f"gave no verdict ({value.reason})" if value.reason in _UNREADABLE else ""
        elif isinstance(value, NotApplicable):
            fault = "does not apply to it"
        else:
            fault = "" if low - _CLOSE <= value <= high + _CLOSE else f"gave {value:g}"
        if fault:
            wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            out.append(f"{evaluator} {fault} where {metric} must be {wanted} (canary {canary.row.case!r})")
    return out


def _message(judge: str, faults: Sequence[str]) -> str:
    more = f"; {len(faults) - 3} more" if len(faults) > 3 else ""
    return f"The judge {judge!r} failed canaries of this chunk: {'; '.join(faults[:3])}{more}."
