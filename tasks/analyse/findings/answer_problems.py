"""Problems with single answers: wrong, unsupported and empty ones, and those that the baseline had right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.evaluators.ground import count, listing, nouns, percent, quoted
from leadline.tasks.analyse.answer_shares import policy_rates
from leadline.tasks.analyse.changes import Changes, MetricChange, ModelChange, read_changes
from leadline.tasks.analyse.findings.failure_clusters import explained
from leadline.tasks.analyse.findings.finding import MOST_ROWS, Finding, RunView, rows_in_words
from leadline.tasks.analyse.findings.metric_problems import of_metric
from leadline.tasks.analyse.findings.severity import graded
from leadline.tasks.db import records, sql
from leadline.tasks.ground.numbers import movement
from leadline.tasks.policy.questions import Question
from leadline.tasks.statistics.statistics import clopper_pearson

NAMED_ROWS: Final = 3
"""Bad rows that a problem names in its text."""
TOLERATED_EMPTY: Final = 0.02
"""Share of empty answers beyond which they fail the gate, if it is surely exceeded."""

RECOGNISES: Final = 0.8
"""Share of good answers that a metric passes, from which one that it fails looks bad."""

_BAD: Final[Mapping[str, tuple[str, str, str]]] = {
    Question.RIGHT: ("are wrong", "look wrong", "right"),
    Question.GROUNDED: ("are not supported", "look unsupported", "supported by what was retrieved"),
}
_ACTIONS: Final = (
    "Open the cases named and read the answer beside the baseline's. Look for the cause in what changed between the "
    "two runs: the prompt, the model, its settings, the documents or the retrieval."
)


def bad_answer_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and question with answers that are not good, the rows worst first.

    It is HIGH where surely too few answers are good, MEDIUM where too few seem to be, else LOW: they are listed. Rows
    that fail what *must* hold have a problem of their own.
    """
    wrong = {
        (line["question"], line["model_id"]): line["row_ids"]
        for line in records(view.connection, sql("verdict/labelled_bad"))
    }
    failed = records(view.connection, sql("verdict/bad_rows"), {"most": MOST_ROWS})
    bad = {(line["question"], line["model_id"]): line for line in failed}
    for share in records(
        view.connection, "SELECT * FROM answer_shares WHERE n_decided > 0 ORDER BY question, model_id"
    ):
        if share["n_labels"]:
            if rows := wrong.get((share["question"], share["model_id"])):
                yield _labelled_bad(view, share, rows)
        elif line := bad.get((share["question"], share["model_id"])):
            yield explained(view, _bad(view, share, line))


def _bad(view: RunView, share: Mapping[str, Any], line: Mapping[str, Any]) -> Finding:
    are, look, good = _BAD[share["question"]]
    metric_id = max(sorted(line["metrics"]), key=line["metrics"].__getitem__)
    metric, model = view.metrics[metric_id], view.model_name(share["model_id"])
    n_bad, rows = sum(line["metrics"].values()), line["row_ids"]
    failing, rule = share["outcome"] == "fail", view.rules[metric_id]
    if not failing and rule["proof"] == "estimate" and policy_rates(rule).sensitivity < RECOGNISES:
        look = f"cannot be recognised as {good}"
    parts = [
        f"{model}: {n_bad:,} of {count(share['n_decided'], view.noun)} {are if share['exact'] else look}.",
        *(share_in_words(share, good) if failing or share["value"] < share["wanted"] else ()),
        *rows_in_words(view, metric["evaluator_id"], rows[:NAMED_ROWS]),
    ]
    if n_bad > NAMED_ROWS:
        parts.append(f"{count(n_bad - NAMED_ROWS, 'further row')}: see the list.")
    return of_metric(
        view,
        metric,
        view.aggregates[metric_id, share["model_id"]],
        kind="bad_answers",
        severity=graded(failing, share["value"] < share["wanted"]),
        harm=rule["weight"] * n_bad / max(1, share["n_asked"]),
        description=" ".join(parts),
        n_failed=n_bad,
        rows=rows,
        share=share["value"],
        ci_low=share["ci_low"],
        ci_high=share["ci_high"],
        wanted=share["wanted"],
    )


def _labelled_bad(view: RunView, share: Mapping[str, Any], rows: Sequence[int]) -> Finding:
    _, _, good = _BAD[share["question"]]
    model = share["model_id"]
    parts = [
        f"{view.model_name(model)}: people do not call {len(rows):,} of {count(share['n_labels'], 'answer')} {good}.",
        *share_in_words(share, good),
    ]
    return view.finding(
        type="accuracy",
        kind="bad_answers",
        question=share["question"],
        severity=graded(share["outcome"] == "fail", share["value"] < share["wanted"]),
        harm=len(rows) / share["n_labels"],
        description=" ".join(parts),
        actions="Look at the rows named: they say what this model gets wrong.",
        row_ids=rows[:MOST_ROWS],
        model_id=model,
        n_failed=len(rows),
        n_rows=share["n_labels"],
    )


def share_in_words(share: Mapping[str, Any], good: str) -> Iterator[str]:
    """Yield how many answers are good, how sure that is, and what is asked for."""
    allowed = "" if share["exact"] else "Allowing for the errors of what checks them, "
    said = f"{allowed}{percent(share['value'])} of the answers are {good} (95 % interval {percent(share['ci_low'])} to "
    yield f"{said}{percent(share['ci_high'])}); {percent(share['wanted'])} should be."


def empty_answer_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model with empty answers, or answers that say only "nan" or "None"."""
    for line in records(view.connection, sql("verdict/empty_answers")):
        n_empty, n_rows = len(line["row_ids"]), int(line["n_rows"])
        low, _ = clopper_pearson(n_empty / n_rows, n_rows)
        model = line["model_id"]
        yield view.finding(
            type="accuracy",
            kind="empty_answers",
            question=Question.RIGHT,
            severity=graded(low > TOLERATED_EMPTY),
            harm=n_empty / n_rows,
            description=f"{view.model_name(model)}: {n_empty:,} of {count(n_rows, 'answer')} "
            f"{nouns(n_empty, 'is', 'are')} empty.",
            actions="Look at what the model's host returned for the rows named, and at how the answers were collected.",
            row_ids=line["row_ids"][:MOST_ROWS],
            model_id=model,
            n_failed=n_empty,
            n_rows=n_rows,
        )


def regression_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model that is worse than the baseline, or of which some answers are newly broken."""
    changes = read_changes(view.connection)
    for model in changes.models if changes else ():
        if changes and (model.n_broken or model.verdict == "fail"):
            yield _regression(view, changes, model)


def _regression(view: RunView, changes: Changes, model: ModelChange) -> Finding:
    failed = [metric for metric in model.metrics if metric.verdict == "fail"]
    broken = [metric for metric in model.metrics if metric.n_broken]
    broken.sort(key=lambda metric: (-metric.weight, -metric.n_broken))
    name = view.model_name(model.model_id)
    parts = []
    if failed:
        parts.append(f"{name} is worse than in {changes.baseline.label} by more than is tolerated:")
        parts.append(f"{listing(map(_moved, failed), most=4)}.")
    if model.n_broken:
        of = count(model.n_rows, view.noun)
        parts.append(f"{model.n_broken:,} of {of} of {name} passed in {changes.baseline.label} and fail now")
        parts[-1] += f" ({listing(f'{metric.name} {metric.n_broken:,}' for metric in broken)}): {_cases(model)}."
        parts.append(f"{model.n_fixed:,} {nouns(model.n_fixed, 'was', 'were')} fixed." if model.n_fixed else "")
    leading = max([*failed, *broken], key=lambda metric: (metric in failed, metric.weight, metric.n_broken))
    return Finding(
        type="regression",
        kind="regression",
        severity=graded(  # high only where the comparison fails the model, beyond chance
            model.verdict == "fail", model.verdict == "inconclusive" and model.n_broken > model.n_fixed
        ),
        harm=model.n_broken / max(1, model.n_rows),
        evaluator_id=view.metrics[leading.metric_id]["evaluator_id"],
        metric_id=leading.metric_id,
        model_id=model.model_id,
        description=" ".join(filter(None, parts)),
        actions=_ACTIONS,
        attrs=view.attrs(
            metric=view.metrics[leading.metric_id],
            model_id=model.model_id,
            baseline_run=changes.baseline.run,
            baseline_model=model.baseline_model,
            verdict=model.verdict,
            n_broken=model.n_broken,
            n_fixed=model.n_fixed,
            n_compared=model.n_rows,
            worse_metrics=[metric.key for metric in failed],
        ),
        row_ids=[row.row_id for row in model.broken],
    )


def _moved(metric: MetricChange) -> str:
    if metric.baseline is None or metric.candidate is None:
        return metric.name
    return f"{metric.name} {movement(metric.baseline, metric.candidate, metric.share)}"


def _cases(model: ModelChange) -> str:
    names = [quoted(row.case, most=80)[1:-1] for row in model.broken[:3]]
    return ", ".join(names) + (f" and {model.n_broken - len(names):,} more" if model.n_broken > len(names) else "")
