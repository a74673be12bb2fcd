"""The outcome of a check, and the facts a pull request is told: what broke, was fixed, cannot be told, its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import count, listing
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.shared.settings import FailOn
from leadline.plugins.ci.config import CheckConfig
from leadline.tasks.analyse.changes import Changes, MetricChange, ModelChange, RowChange
from leadline.tasks.db import open_run, sql
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.run_results import read_results
from leadline.tasks.runs.run_facts import failing_severities
from leadline.tasks.runs.run_sentences import Spending, spending
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


REGRESSION: Final = "regression"
"""Kind of the problem that a model is worse than in the run it was compared with."""
_MOST_MESSAGE: Final = 300
Verdict: TypeAlias = Literal["pass", "fail", "inconclusive", "error"]
FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A row whose answer changed sides of a metric.

    Attributes:
        question: The question; "" where it has none, or none is to be shown.
        before: The answer in the run that was compared with; "" as above.
        answer: The answer in this run; "" as above.
        reason: What the evaluator says about it, or "".
    """

    case: str
    question: str
    before: str
    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class BrokenMetric:
    """The rows of one model that passed a metric and now fail it, with another answer.

    Attributes:
        example: One of them; ``None`` where none was read.
    """

    metric: str
    model: str
    n: int
    example: ChangedAnswer | None
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FixedRows:
    """The rows of one model that failed some metric and now pass it."""

    model: str
    n: int
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untold:
    """A metric of one model of which nothing can be told, and why; the reason says how many cases would tell."""

    metric: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class StandingProblem:
    """A problem of a model that does not rest on the comparison."""

    severity: str
    headline: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Findings of a run, for a summary of a change.

    Attributes:
        note: Why it was not, or "".
        worse: By model why it is worse by more than is tolerated.
        n_rejudged: Rows with the same answer that changed sides.
        metrics: The metrics that were compared, each with its model's key.
        unmeasured: Sentences on rows that could not be scored, and on evaluators that could not run.
        problems: Problems of models that do not rest on the comparison, worst first.
        calls: Calls of judges by evaluator, then all together; empty without calls.
    """

    n_cases: int
    n_rows: int
    models: tuple[str, ...]
    compared: bool
    note: str
    notes: tuple[str, ...]
    worse: Mapping[str, str]
    broken: tuple[BrokenMetric, ...]
    n_broken: int
    fixed: tuple[FixedRows, ...]
    n_fixed: int
    n_rejudged: int
    metrics: tuple[tuple[str, MetricChange], ...]
    untold: tuple[Untold, ...]
    unmeasured: tuple[str, ...]
    problems: tuple[StandingProblem, ...]
    regressions: tuple[str, ...]
    calls: tuple[Spending, ...]


def read_change(store: Store, run: Run, *, answers: bool) -> ChangeFacts:
    """Read what a completed run found.

    Args:
        answers: Read questions and answers of the examples.
    """
    with open_run(store, run, read_only=True) as connection:
        facts = read_results(connection, run, run.read()).facts
        changes = facts.changes
        found = changes.models if changes and not changes.baseline.note else ()
        return ChangeFacts(
            n_cases=facts.n_cases,
            n_rows=facts.n_rows,
            models=tuple(model.key for model in facts.models),
            compared=bool(changes and not changes.baseline.note),
            note=changes.baseline.note if changes else "",
            notes=_notes(changes),
            worse={model.model: model.reason for model in found if model.verdict == "fail"},
            broken=tuple(_broken(connection, facts, found, answers=answers)),
            n_broken=sum(model.n_broken for model in found),
            fixed=tuple(FixedRows(model.model, model.n_fixed, _cases(model.fixed)) for model in found if model.n_fixed),
            n_fixed=sum(model.n_fixed for model in found),
            n_rejudged=sum(model.n_rejudged for model in found),
            metrics=tuple((model.model, metric) for model in found for metric in model.metrics),
            untold=tuple(
                Untold(metric.name, model.model, metric.reason) for model in found for metric in model.undecided
            ),
            unmeasured=tuple(_unmeasured(facts)),
            problems=tuple(
                StandingProblem(problem.severity, problem.description.split(". ")[0].rstrip("."), len(problem.row_ids))
                for problem in facts.problems
                if not problem.instrument and problem.kind != REGRESSION
            ),
            regressions=tuple(problem.severity for problem in facts.problems if problem.kind == REGRESSION),
            calls=tuple(spending(facts.record)),
        )


def _notes(changes: Changes | None) -> tuple[str, ...]:
    if changes is None or changes.baseline.note:
        return ()
    new, gone = changes.baseline.new_cases, changes.baseline.removed_cases
    return (
        *changes.baseline.notes,
        *([f"New cases: {new:,}."] if new else []),
        *([f"Cases that are gone: {gone:,}."] if gone else []),
    )


def _broken(
    connection: DuckDBPyConnection, facts: Facts, models: Sequence[ModelChange], *, answers: bool
) -> Iterator[BrokenMetric]:
    shown: set[int] = set()
    for model in models:
        for metric in sorted(model.metrics, key=lambda each: (each.role != "must", -each.n_broken)):
            if not metric.n_broken:
                continue
            rows = [row for row in model.broken if metric.metric_id in row.metric_ids]
            first = next((row for row in rows if row.row_id not in shown), rows[0] if rows else None)
            shown |= {first.row_id} if first else set()
            yield BrokenMetric(
                metric=metric.name,
                model=model.model,
                n=metric.n_broken,
                example=_example(connection, facts, metric, first, answers=answers) if first else None,
                others=_cases([row for row in rows if row is not first]),
            )


def _example(
    connection: DuckDBPyConnection, facts: Facts, metric: MetricChange, row: RowChange, *, answers: bool
) -> ChangedAnswer:
    view = facts.metric(metric.metric_id)
    evaluator = facts.evaluator(view.evaluator_id) if view else None
    if not answers or (evaluator and not evaluator.keeps_rows):
        return ChangedAnswer(row.case, "", "", "", "")
    [(*_, question, answer)] = connection.execute(sql("publish/summary_rows"), [[row.row_id]]).fetchall()
    evidence = connection.execute(sql("publish/summary_evidence"), [[row.row_id]]).fetchall()
    said = next((_message(text) for _, id_, text, _ in evidence if evaluator and id_ == evaluator.id), "")
    return ChangedAnswer(row.case, question or "", row.baseline_answer or "", answer or "", said)


def _message(evidence: str | None) -> str:
    try:
        found: Any = json.loads(evidence or "{}")
    except ValueError:
        return ""
    return str(found.get("message") or "")[:_MOST_MESSAGE] if isinstance(found, dict) else ""


def _cases(rows: Sequence[RowChange]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.case for row in rows))


def _unmeasured(facts: Facts) -> Iterator[str]:
    for evaluator in facts.evaluators:
        if evaluator.error:
            yield f"{evaluator.short} could not run: {evaluator.error}"
    for item in facts.unmeasured:
        view = facts.evaluator(item.evaluator_id)
        said = f": {item.message}" if item.message else ""
        yield f"{view.short if view else 'An evaluator'} could not score {item.n_rows:,} ({item.reason}){said}"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Outcome of one check.

    Attributes:
        name: The check; "" if it is the only one.
        dataset: Its dataset, as it is named in the file.
        base: Which run it was compared with, or why with none; "" where that was not got to.
        exit_code: What the job leaves with on account of it.
        result: The evaluation's; ``None`` where there is none.
        facts: What the run found; ``None`` as above.
        tag: The tag that the run got, or "".
        report: Address of the report for a browser, or "".
    """

    name: str
    dataset: str
    verdict: Verdict
    reason: str
    base: str = ""
    exit_code: int = 0
    result: EvaluateResult | None = None
    facts: ChangeFacts | None = None
    tag: str = ""
    report: str = ""


def decide(config: CheckConfig, result: EvaluateResult, facts: ChangeFacts) -> tuple[Verdict, str]:
    """Return what a check comes to and why: the gate's decision, or that on the changes alone."""
    return _of_changes(config, result, facts) if config.only_changes else (result.gate, result.gate_reason)


def exit_code(config: CheckConfig, verdict: Verdict) -> int:
    """Return what the job leaves with: 0, or 1 for a verdict that fails it.

    Args:
        verdict: What it came to; no error.
    """
    if config.fail_on == FailOn.NEVER:
        return 0
    return FAILED if verdict == "fail" or (verdict == "inconclusive" and config.inconclusive == "fail") else 0


def _of_changes(config: CheckConfig, result: EvaluateResult, facts: ChangeFacts) -> tuple[Verdict, str]:
    """Decide on what is worse than in the run that was compared with, by the severities that ``fail_on`` names."""
    severities = failing_severities(str(config.fail_on))
    bad = [severity for severity in facts.regressions if severity in severities]
    if bad:
        whose = listing(facts.worse) if facts.worse else count(len(bad), "model")
        return "fail", f"Newly broken answers of {whose} are a problem of {bad[0]} severity."
    if not result.scored:
        return "inconclusive", "Nothing was scored."
    if facts.note:
        return "inconclusive", f"{facts.note[:1].upper()}{facts.note[1:]}."
    if not facts.compared:
        return "pass", "There is nothing to compare with, and only what is worse fails this check."
    return "pass", f"Nothing that is worse than before is a problem of {severities[-1]} severity."
