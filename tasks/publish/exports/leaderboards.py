"""The leaderboard of one evaluator: JSON files by metric, and two kinds of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import jsonio
from leadline.tasks.db.statements import sql
from leadline.tasks.ground.templating import render
from leadline.tasks.publish.exports import tree_layout
from leadline.tasks.publish.exports.tree_layout import metric_meta
from leadline.tasks.publish.views import Aggregate, EvaluatorView, Facts, MetricView, ModelView, number

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HARDEST: Final = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's line of a leaderboard, ordered by the primary metric."""

    rank: int
    model: ModelView
    aggregate: Aggregate | None
    values: dict[str, float | None]

    @property
    def failed(self) -> int | None:
        """Scored rows that miss the threshold."""
        if self.aggregate is None or self.aggregate.n_pass is None:
            return None
        return self.aggregate.n_scored - self.aggregate.n_pass


def kind(evaluator: EvaluatorView) -> str:
    """Return the explanation's type."""
    return f"global-llm-{'bool' if evaluator.board == 'bool' else 'heatmap'}-leaderboard"


def standings(facts: Facts, evaluator: EvaluatorView) -> list[Standing]:
    """Return the models, best first by the primary metric; models without a value come last, ties share a rank.

    Args:
        facts: The run.
    """
    primary = evaluator.primary
    if primary is None:
        return []

    def merit(model: ModelView) -> tuple[bool, float]:
        value = _value(facts, primary, model)
        return (value is None, 0.0 if value is None else -value if primary.higher_is_better else value)

    ordered = sorted(facts.models, key=merit)
    merits = [merit(model) for model in ordered]
    return [
        Standing(
            rank=merits.index(merit(model)) + 1,
            model=model,
            aggregate=facts.aggregates.get((primary.id, model.id)),
            values={metric.key: _value(facts, metric, model) for metric in evaluator.metrics},
        )
        for model in ordered
    ]


def write_leaderboards(
    facts: Facts, evaluator: EvaluatorView, folder: Path, hardest: Sequence[Mapping[str, Any]]
) -> None:
    """Write the leaderboard's JSON, index and Markdown files.

    Args:
        facts: The run.
        folder: The evaluator's folder.
        hardest: The cases that most models failed.
    """
    explanation = kind(evaluator)
    index = tree_layout.explanation(folder, explanation, tree_layout.JSON)
    files = {"ALL_METRICS": "leaderboard_0.json"}
    jsonio.write(index.with_name("leaderboard_0.json"), _board(facts, evaluator.metrics))
    for position, metric in enumerate(evaluator.metrics, start=1):
        files[metric.key] = f"leaderboard_{position}.json"
        jsonio.write(index.with_name(files[metric.key]), _board(facts, (metric,)))
    jsonio.write(index, {"files": files})
    context = {
        "facts": facts,
        "evaluator": evaluator,
        "standings": standings(facts, evaluator),
        "hardest": hardest,
    }
    tree_layout.explanation(folder, explanation, tree_layout.MARKDOWN).write_text(
        render("tree/leaderboard.md", **context), "utf-8"
    )
    tree_layout.explanation(folder, explanation, tree_layout.LEADERBOARD_MARKDOWN).write_text(
        render("tree/leaderboard_summary.md", **context), "utf-8"
    )


def hardest_cases(connection: DuckDBPyConnection, evaluator: EvaluatorView) -> list[dict[str, Any]]:
    """Return the cases that most models failed by the primary metric, hardest first."""
    primary = evaluator.primary
    if primary is None or primary.threshold is None or primary.dataset_level:
        return []
    query = sql("publish/hardest").format(
        fails=f"value {'<' if primary.higher_is_better else '>'} {primary.threshold!r}::DOUBLE"
        if abs(primary.threshold) != float("inf")
        else "false",
        metric_id=primary.id,
        limit=HARDEST,
    )
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def _board(facts: Facts, metrics: tuple[MetricView, ...]) -> dict[str, Any]:
    return {
        "data": {
            model.key: {metric.key: number(_value(facts, metric, model)) for metric in metrics}
            for model in facts.models
        },
        "metadata": {metric.key: metric_meta(metric) for metric in metrics},
    }


def _value(facts: Facts, metric: MetricView, model: ModelView) -> float | None:
    found = facts.aggregates.get((metric.id, model.id))
    return None if found is None else found.value
