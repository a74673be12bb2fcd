"""The leaderboard of one evaluator: JSON files by metric, and two kinds of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import jsonio
from leadline.plugins.sonar import tree_layout
from leadline.tasks.db import sql
from leadline.tasks.ground.templating import render
from leadline.tasks.publish.exports.report_json import metric_meta
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, number, standings, value_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HARDEST: Final = 20


def kind(evaluator: EvaluatorView) -> str:
    """Return the explanation's type."""
    return f"global-llm-{'bool' if evaluator.board == 'bool' else 'heatmap'}-leaderboard"


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
        render(__package__ or "", "leaderboard.md", **context), "utf-8"
    )
    tree_layout.explanation(folder, explanation, tree_layout.LEADERBOARD_MARKDOWN).write_text(
        render(__package__ or "", "leaderboard_summary.md", **context), "utf-8"
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
            model.key: {metric.key: number(value_of(facts, metric, model)) for metric in metrics}
            for model in facts.models
        },
        "metadata": {metric.key: metric_meta(metric) for metric in metrics},
    }
