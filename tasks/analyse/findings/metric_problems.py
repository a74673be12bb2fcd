"""Problems of a model on a metric: missed thresholds, rows that fail, and contexts that fail where the answer passes.

In the style of H2O Sonar the primary metrics have them; by a policy that groups problems its rules say which do, where
judges decide by their own values or by what people's labels make of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, listing, nouns, number, percent
from leadline.tasks.analyse.answer_shares import rows_decide
from leadline.tasks.analyse.findings.failure_clusters import explained
from leadline.tasks.analyse.findings.finding import MOST_ROWS, RETRIEVAL, Finding, RunView, rows_in_words
from leadline.tasks.analyse.findings.severity import graded, how_bad, misses
from leadline.tasks.db import lines_shown, records, sql
from leadline.tasks.policy.policy import Role
from leadline.tasks.policy.questions import Question
from leadline.tasks.statistics.label_correction import in_words, more_for_value
from leadline.tasks.statistics.statistics import FEW_SEEN, Interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_ACTIONS: Final = {
    "privacy": "Read the rows named: they show what leaked. Filter answers and contexts, or keep such data out of the "
    "documents that the system retrieves from.",
    "fairness": "Read the rows named. Tighten the system prompt or add a guardrail, then evaluate again.",
    "retrieval": "Look at the retrieved contexts of the rows named. Improve chunking, the embedding model or the "
    "number of chunks retrieved.",
    "summarization": "Compare the rows named with their expected answers. Adjust the prompt, or check whether the "
    "expected answers are the only acceptable ones.",
}
_CONTEXT_ACTION: Final = (
    "Look at the retrieved contexts: the answer was right in spite of them, which may be luck or the model's own "
    "knowledge. Improve the retrieval."
)
_FAMILY_CODES: Final = {"privacy": "P0300", "fairness": "E0100"}
_EVALUATOR_CODES: Final = {"toxicity": "E0300", "valor.toxicity": "E0300"}
"""AVID codes of evaluators that measure something else than the rest of their family."""
_DEFAULT_ACTION: Final = (
    "Read the rows named, worst first. Improve the prompt, the retrieval or the model, or choose a model that does "
    "better."
)


Line: TypeAlias = Mapping[str, Any]
"""A line of the run's tables by column name."""


def action_for(evaluator: Line) -> str:
    """Return what to do about answers that an evaluator, a line of its table, finds bad."""
    return _ACTIONS.get(evaluator["family"], _DEFAULT_ACTION)


def threshold_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model whose score on an evaluator's primary metric is worse than the threshold."""
    missed = [
        (metric, aggregate)
        for evaluator_id in view.evaluators
        if (metric := view.primary(evaluator_id)) is not None and view.rules[metric["metric_id"]]["use"] != "corrected"
        for model_id in view.models
        if (aggregate := view.aggregates.get((metric["metric_id"], model_id))) and misses(metric, aggregate)
    ]
    failing = failing_rows(view.connection, [aggregate for _, aggregate in missed])
    for metric, aggregate in missed:
        n_failed, rows = failing.get((metric["metric_id"], aggregate["model_id"]), (0, []))
        yield _threshold_problem(view, metric, aggregate, n_failed, rows)


def failing_rows(
    connection: DuckDBPyConnection, missed: Sequence[Line]
) -> dict[tuple[int, int], tuple[int, list[int]]]:
    """Return how many rows are on the bad side of the threshold, and which, worst first, by metric and model."""
    if not missed:
        return {}
    with lines_shown(connection, "wanted", {key: [line[key] for line in missed] for key in ("metric_id", "model_id")}):
        found = records(connection, sql("problems/failing_rows").format(most=MOST_ROWS))
    return {(line["metric_id"], line["model_id"]): (line["n_failed"], line["row_ids"]) for line in found}


def _threshold_problem(
    view: RunView, metric: Mapping[str, Any], aggregate: Mapping[str, Any], n_failed: int, rows: Sequence[int]
) -> Finding:
    parts = [
        f"Evaluated model {view.model_name(aggregate['model_id'])} failed to satisfy the threshold "
        f"{number(metric['threshold'])}"
    ]
    parts.append(
        f"for metric '{metric['name']}', with average score {number(aggregate['value'])} ({basis(view, aggregate)})."
    )
    if n_failed:
        parts.append(f"{view.noun.capitalize()}s that miss it: {n_failed:,} of {aggregate['n_scored']:,}.")
    if aggregate["verdict"] == "inconclusive":
        parts.append(doubt(metric, aggregate))
    if metric["description"]:
        parts.append(f"{metric['name']} metric: {metric['description']}")
    return of_metric(
        view,
        metric,
        aggregate,
        kind="missed_threshold",
        severity=how_bad(aggregate["value"], metric),
        description=" ".join(parts),
        n_failed=n_failed,
        rows=rows,
        ci_low=aggregate["ci_low"],
        ci_high=aggregate["ci_high"],
        verdict=aggregate["verdict"],
    )


def of_metric(
    view: RunView,
    metric: Line,
    aggregate: Line,
    *,
    kind: str,
    severity: Severity,
    description: str,
    n_failed: int,
    rows: Sequence[int],
    harm: float = 0.0,
    **more: Any,
) -> Finding:
    """Return a problem of a model on one metric, with the attributes that all such problems have.

    Args:
        harm: Orders problems of one severity.
    """
    evaluator_id, model_id = metric["evaluator_id"], aggregate["model_id"]
    return view.finding(
        type=view.problem_type(evaluator_id),
        kind=kind,
        severity=severity,
        harm=harm,
        description=description,
        actions=action_for(view.evaluators[evaluator_id]),
        row_ids=rows,
        metric=metric,
        model_id=model_id,
        avid=avid_code(view.evaluators[evaluator_id]),
        n_failed=n_failed,
        n_scored=aggregate["n_scored"],
        n_unscored=aggregate["n_unscored"],
        **more,
    )


def avid_code(evaluator: Mapping[str, Any]) -> str:
    """Return the AVID code of what an evaluator measures."""
    own = _EVALUATOR_CODES.get(evaluator["evaluator"].partition("#")[0])
    return own or _FAMILY_CODES.get(evaluator["family"], "P0200")


def basis(view: RunView, aggregate: Mapping[str, Any]) -> str:
    """Return how sure a value is: its interval, its answers or conversations, its coverage."""
    parts = []
    if aggregate["ci_low"] is not None:
        parts.append(f"95 % interval {number(aggregate['ci_low'])} to {number(aggregate['ci_high'])}")
    parts.append(count(aggregate["n_scored"], view.noun))
    if aggregate["n_unscored"]:
        coverage = aggregate["n_scored"] / (aggregate["n_scored"] + aggregate["n_unscored"])
        parts.append(f"coverage {percent(coverage)}")
    return ", ".join(parts)


def doubt(metric: Line, aggregate: Line) -> str:
    """Return why a missed threshold decides nothing."""
    low, high, threshold = aggregate["ci_low"], aggregate["ci_high"], metric["threshold"]
    if low is None:
        return "One score is too little to be sure."
    if low <= threshold <= high:
        return "This may be chance: the interval reaches the threshold."
    surely = Interval(low, high, aggregate["ci_method"]).surely(metric["low"], metric["high"])
    if surely.low <= threshold <= surely.high:
        return f"This may be chance: these are {FEW_SEEN}."
    return "The rows that could not be scored could change this."


def retrieval_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each pass/fail evaluator and model with contexts that fail although the answers pass."""
    for line in records(view.connection, sql("problems/retrieval").format(most=MOST_ROWS)):
        evaluator_id, model_id = line["evaluator_id"], line["model_id"]
        metric = view.metrics[line["metric_id"]]
        private = view.evaluators[evaluator_id]["family"] == "privacy"
        yield view.finding(
            type=RETRIEVAL,
            kind="failing_context",
            severity=Severity.MEDIUM,
            description=f"{view.evaluator_name(evaluator_id)}: on {count(line['n'], 'row')} of model "
            f"{view.model_name(model_id)} the retrieved context fails the check although the answer passes it.",
            actions=_ACTIONS["privacy"] if private else _CONTEXT_ACTION,
            row_ids=line["row_ids"],
            metric=metric,
            model_id=model_id,
            avid=_FAMILY_CODES["privacy"] if private else "P0100",
            n_rows=line["n"],
        )


NAMED_CASES: Final = 3
"""Failing cases that a problem names in its text."""

_UNLIKE: Final[Mapping[str, str]] = {
    Question.RIGHT: "the expected answer",
    Question.GROUNDED: "what was retrieved",
}
"""What answers are held against by metrics of likeness, which can show no more than that they are off."""


def failing_rows_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and *must* metric with failing rows; it names cases and what is said of them.

    Of likeness a few rows that are off say nothing: these are a problem only beyond what is tolerated.
    """
    lines = [line for line in _lines(view, Role.MUST) if line[1]["n_pass"] is not None]
    failing = failing_rows(view.connection, [aggregate for _, aggregate in lines])
    for metric, aggregate in lines:
        n_failed, rows = failing.get((metric["metric_id"], aggregate["model_id"]), (0, []))
        rule, scored = view.rules[metric["metric_id"]], int(aggregate["n_scored"])
        few = rule["proof"] == "likeness" and n_failed <= view.tolerated(metric["metric_id"], scored)
        if n_failed and not few:
            yield explained(view, _failing(view, metric, aggregate, n_failed, rows))


def _lines(view: RunView, role: Role) -> list[tuple[Line, Line]]:
    """Return the metrics of a role that their own values decide, each with the aggregate of each model."""
    return [
        (metric, aggregate)
        for (metric_id, _), aggregate in view.aggregates.items()
        if view.role(metric_id) is role
        and view.rules[metric_id]["use"] != "corrected"
        and (metric := view.metrics[metric_id])
        and aggregate["n_scored"]
    ]


def _failing(view: RunView, metric: Line, aggregate: Line, n_failed: int, rows: Sequence[int]) -> Finding:
    evaluator_id, model_id = metric["evaluator_id"], aggregate["model_id"]
    rule, scored = view.rules[metric["metric_id"]], int(aggregate["n_scored"])
    allowed = view.tolerated(metric["metric_id"], scored)
    may = f"at most {allowed:,} may" if allowed else "none may"
    sure = not rule["surely"] or 1 - aggregate["pass_high"] > rule["tolerance_share"]
    beyond = n_failed > allowed and (sure or rule["proof"] != "likeness")
    counts = beyond and not _known_good(view, rule, model_id)
    parts = [
        f"{view.model_name(model_id)}: {n_failed:,} of {count(scored, view.noun)} "
        f"{_failing_in_words(view, metric, n_failed)} ({may})."
    ]
    parts += rows_in_words(view, evaluator_id, rows[:NAMED_CASES])
    if n_failed > NAMED_CASES:
        parts.append(f"{count(n_failed - NAMED_CASES, 'further row')}: see the list.")
    if beyond and not sure:
        parts.append("What finds them errs itself, so that this may be chance: look at the rows named.")
    if scored < rule["min_rows"]:
        parts.append(f"Too few for a decision: the policy asks for {rule['min_rows']:,} rows of a judge's verdicts.")
    return of_metric(
        view,
        metric,
        aggregate,
        kind="failing_rows",
        severity=graded(counts and sure and scored >= rule["min_rows"], counts),
        harm=rule["weight"] * n_failed / aggregate["n_rows"],
        description=" ".join(parts),
        n_failed=n_failed,
        rows=rows,
        role="must",
        n_tolerated=allowed,
    )


def _failing_in_words(view: RunView, metric: Line, n_failed: int) -> str:
    rule = view.rules[metric["metric_id"]]
    if rule["proof"] == "likeness" and (unlike := _UNLIKE.get(rule["question"])):
        return f"{nouns(n_failed, 'looks', 'look')} unlike {unlike}"
    return f"{nouns(n_failed, 'fails', 'fail')} {view.evaluator_name(metric['evaluator_id'])}"


def _known_good(view: RunView, rule: Line, model_id: int) -> bool:
    """Return whether a rule speaks of likeness alone where enough answers are known to be good all the same."""
    if rule["proof"] != "likeness":
        return False
    found = view.connection.execute(
        "SELECT 1 FROM answer_shares WHERE question = ? AND model_id = ? AND outcome = 'pass'",
        [rule["question"], model_id],
    )
    return found.fetchone() is not None


def missed_threshold_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and family of *should* metrics of which one misses its threshold.

    A metric misses it by its value, or by the share of the answers that satisfy it. A *must* metric of the whole
    dataset is judged likewise: it has no failing rows to count.
    """
    by_value = [line for line in _lines(view, Role.MUST) if line[1]["n_pass"] is None] + _lines(view, Role.SHOULD)
    missed = [
        (metric, aggregate)
        for metric, aggregate in by_value
        if not rows_decide({**view.rules[metric["metric_id"]], **metric})
        and (_fails_some(aggregate) or misses(metric, aggregate))
    ]
    failing = failing_rows(view.connection, [aggregate for _, aggregate in missed])
    groups: defaultdict[tuple[int, str], list[Finding]] = defaultdict(list)
    for metric, aggregate in missed:
        family = view.evaluators[metric["evaluator_id"]]["family"]
        n_failed, rows = failing.get((metric["metric_id"], aggregate["model_id"]), (0, []))
        groups[aggregate["model_id"], family].append(_missed(view, metric, aggregate, n_failed, rows))
    for found in groups.values():
        yield explained(
            view, _joined(view, sorted(found, key=lambda each: (each.severity is not Severity.HIGH, -each.harm)))
        )


def _fails_some(aggregate: Line) -> bool:
    return aggregate["n_pass"] is not None and bool(aggregate["n_pass"] < aggregate["n_scored"])


def _few_pass(view: RunView, metric: Line, aggregate: Line) -> bool:
    """Return whether too few answers satisfy the threshold; shares are left out, since their value says just that."""
    share, wanted = aggregate["pass_share"], view.rules[metric["metric_id"]]["min_pass_share"]
    return share is not None and not metric["is_share"] and bool(share < wanted)


def _missed(view: RunView, metric: Line, aggregate: Line, n_failed: int, rows: Sequence[int]) -> Finding:
    evaluator_id, model_id = metric["evaluator_id"], aggregate["model_id"]
    rule, scored = view.rules[metric["metric_id"]], int(aggregate["n_scored"])
    few = _few_pass(view, metric, aggregate)
    surely = aggregate["verdict"] == "fail" or (few and aggregate["pass_high"] < rule["min_pass_share"])
    sure = surely and scored >= rule["min_rows"]
    limit = "at least" if metric["higher_is_better"] else "at most"
    name, wanted = view.evaluator_name(evaluator_id), f"{limit} {number(metric['threshold'])}"
    if misses(metric, aggregate):
        parts = [
            f"{view.model_name(model_id)} misses the threshold of {name}: {metric['name']} "
            f"{number(aggregate['value'])}, {wanted} is asked for ({basis(view, aggregate)})."
        ]
        if n_failed:
            parts.append(f"{n_failed:,} of {count(scored, view.noun)} {nouns(n_failed, 'fails', 'fail')} it.")
    else:
        parts = [
            f"{view.model_name(model_id)}: {n_failed:,} of {count(scored, view.noun)} "
            f"{nouns(n_failed, 'fails', 'fail')} {name}."
        ]
        if few:
            parts.append(f"{percent(rule['min_pass_share'])} of the {view.noun}s should pass.")
    missed = few or misses(metric, aggregate)
    if not missed:
        parts += rows_in_words(view, evaluator_id, rows[:NAMED_CASES])
    elif not surely:
        parts.append(doubt(metric, aggregate) if misses(metric, aggregate) else "The true share may reach that.")
    elif scored < rule["min_rows"]:
        parts.append(f"Too few rows for a decision: the policy asks for {rule['min_rows']:,}.")
    return of_metric(
        view,
        metric,
        aggregate,
        kind="missed_threshold",
        severity=graded(missed and sure, missed),
        harm=rule["weight"] * (n_failed or scored) / aggregate["n_rows"],
        description=" ".join(parts),
        n_failed=n_failed,
        rows=rows,
        role=rule["role"],
        ci_low=aggregate["ci_low"],
        ci_high=aggregate["ci_high"],
        verdict=aggregate["verdict"],
    )


def _joined(view: RunView, found: Sequence[Finding]) -> Finding:
    """Return one problem for a model's missed metrics of one family: that of the first, which names the others."""
    first, *others = found
    if not others:
        return first
    names = [
        f"{view.metrics[other.metric_id]['name']} ({number(other.attrs['metric_score'])} against "
        f"{number(view.metrics[other.metric_id]['threshold'])})"
        for other in others
        if other.metric_id is not None
    ]
    also = [str(other.attrs["metric_id"]) for other in others]
    return replace(
        first,
        description=f"{first.description} Likewise: {listing(names, most=5)}.",
        attrs={**first.attrs, "other_metric_ids": also},
    )


def corrected_value_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and metric whose corrected share of good answers is less than the policy wants.

    Only where the gate is decided by corrected values, and the judge's certificate is valid. It is HIGH where the whole
    interval is below what is wanted, else MEDIUM.
    """
    missed = [line for line in records(view.connection, sql("problems/corrected")) if line["value"] < line["wanted"]]
    failing = failing_rows(view.connection, missed)
    for line in missed:
        metric, model = line["metric_id"], line["model_id"]
        n_failed, rows = failing.get((metric, model), (0, []))
        surely = line["verdict"] == "fail" and line["judged"] >= line["min_rows"]
        found = of_metric(
            view,
            view.metrics[metric],
            view.aggregates[metric, model],
            kind="missed_threshold",
            severity=graded(surely),
            harm=line["weight"] * (1 - line["value"]),
            description=_words(view, line, surely=surely),
            n_failed=n_failed,
            rows=rows,
            role=line["role"],
            ci_low=line["ci_low"],
            ci_high=line["ci_high"],
            verdict=line["verdict"],
            corrected=line["value"],
            n_labels=line["n_labels"],
        )
        more = more_for_value(line["n_labels"], line["value"], line["ci_high"], line["wanted"])
        yield found if surely else replace(found, actions=f"First label: {in_words(more)}. {found.actions}")


def _words(view: RunView, line: Mapping[str, Any], *, surely: bool) -> str:
    name = view.evaluator_name(view.metrics[line["metric_id"]]["evaluator_id"])
    words = (
        f"{view.model_name(line['model_id'])}: by {count(line['n_labels'], 'label')} of people "
        f"{percent(line['value'])} of the answers are good ({name}, corrected; 95 % interval "
        f"{percent(line['ci_low'])} to {percent(line['ci_high'])}), {percent(line['wanted'])} are asked for; "
        f"the judge says {percent(line['judge'])}."
    )
    return words if surely else f"{words} This may be chance: more labels narrow the interval."
