"""Insights: which model to choose, what it costs, and what the cases and checks reveal; at most a dozen.

``docs/mechanisms/problems-and-insights.md`` lists all kinds with their triggers and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from leadline.evaluators.ground import count, number, quoted
from leadline.tasks.analyse.findings import case_insights, comparisons, model_choice
from leadline.tasks.analyse.findings.finding import Finding, lines, merge
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.policy.policy import Policy, ProblemStyle

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def hardest_cases(view: RunView) -> Iterator[Finding]:
    """Yield, for each evaluator, the test case that most models fail on its primary metric."""
    metrics = [metric["metric_id"] for id_ in view.evaluators if (metric := view.primary(id_))]
    for line in records(view.connection, sql("insights/hardest"), [metrics]):
        metric = view.metrics[line["metric_id"]]
        evaluator_id = metric["evaluator_id"]
        question = quoted(line["question"]) if line["question"] else f"case {quoted(line['case_key'])}"
        alike = f" {count(line['n_alike'] - 1, 'other case')} did as badly." if line["n_alike"] > 1 else ""
        yield Finding(
            type="weak-point",
            evaluator_id=evaluator_id,
            metric_id=metric["metric_id"],
            description=f"The most difficult test case for {view.evaluator_name(evaluator_id)}: {question}. "
            f"{line['n_failed']} of {count(line['n_models'], 'model')} failed it.{alike}",
            actions="Read what the models answered: the question may be unclear, or lie outside of what they know.",
            attrs=view.attrs(
                evaluator_id=evaluator_id,
                metric=metric,
                n_failed=line["n_failed"],
                n_models=line["n_models"],
                n_alike=line["n_alike"],
            ),
            row_ids=line["row_ids"],
        )


def least_grounded_sentences(view: RunView) -> Iterator[Finding]:
    """Yield, for each model whose groundedness misses its threshold, the sentence with the least support."""
    for line in records(view.connection, sql("insights/least_grounded")):
        evaluator_id, model_id = line["evaluator_id"], line["model_id"]
        metric = view.primary(evaluator_id)
        aggregate = view.aggregates.get((metric["metric_id"], model_id)) if metric else None
        if metric is None or aggregate is None or aggregate["value"] is None or metric["threshold"] is None:
            continue
        good = (
            aggregate["value"] >= metric["threshold"]
            if metric["higher_is_better"]
            else (aggregate["value"] <= metric["threshold"])
        )
        if good:
            continue
        closest = f" Closest in the context: {quoted(line['closest'])}." if line["closest"] else ""
        yield Finding(
            type="grounding",
            evaluator_id=evaluator_id,
            metric_id=metric["metric_id"],
            model_id=model_id,
            description=f"The least grounded sentence of {view.model_name(model_id)} "
            f"({number(line['value'])}): {quoted(line['sentence'], most=300)}.{closest}",
            actions="Check the sentence against the retrieved context; the model may have made it up.",
            attrs=view.attrs(
                evaluator_id=evaluator_id,
                metric=metric,
                model_id=model_id,
                sentence=line["sentence"],
                sentence_value=line["value"],
                closest=line["closest"] or "",
            ),
            row_ids=[line["row_id"]],
        )


_Source: TypeAlias = Callable[[RunView], Iterator[Finding]]

SOURCES: Final[Mapping[ProblemStyle, tuple[_Source, ...]]] = {
    "seed": (
        comparisons.best_and_worst,
        comparisons.retrieval_comparisons,
        comparisons.usage_comparisons,
        hardest_cases,
        least_grounded_sentences,
    ),
    "grouped": (
        model_choice.recommendation,
        model_choice.trade_offs,
        comparisons.preferred_model,
        case_insights.surprising_slices,
        case_insights.same_questions,
        case_insights.cases_failed_by_all,
        case_insights.cases_passed_by_all,
        case_insights.disagreeing_checks,
        case_insights.least_grounded_sentence,
        model_choice.dearest_and_slowest,
    ),
}
"""What looks for insights, by the style of the policy."""
MOST_INSIGHTS: Final = 12
"""Most insights of a run, apart from the seed's style."""


def find_insights(connection: DuckDBPyConnection, policy: Policy) -> int:
    """Fill the table ``insights`` and return their number: the recommendation first, then by value.

    In the seed's style they stand by type, then by evaluator.

    Args:
        connection: The run's database, after problems were found.
        policy: The gate's policy.
    """
    show_targets(connection)
    view = RunView(connection, policy)
    found = merge(insight for source in SOURCES[policy.problems] for insight in source(view))
    if policy.problems == "seed":
        found.sort(key=lambda insight: (insight.type, -1 if insight.evaluator_id is None else insight.evaluator_id))
    else:
        found = sorted(found, key=lambda insight: -insight.harm)[:MOST_INSIGHTS]
    numbered = enumerate(lines(connection, found))
    return replace_lines(connection, "insights", [{"insight_id": number, **columns} for number, columns in numbered])
