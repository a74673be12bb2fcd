"""The details of an evaluator as files: JSON, and the values by label as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import jsonio
from leadline.evaluators.core.details import Details
from leadline.tasks.publish.exports import tree_layout
from leadline.tasks.publish.facts import read_details
from leadline.tasks.publish.views import EvaluatorView, Facts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KIND: Final = "global-details"


def write_details(connection: DuckDBPyConnection, facts: Facts, evaluator: EvaluatorView, folder: Path) -> None:
    """Write an evaluator's details as JSON, and its values by label as CSV; nothing where there are none."""
    found = read_details(connection, evaluator.id)
    if not found:
        return
    models = {model.id: model.key for model in facts.models}
    by_model = {models[model_id]: details for model_id, details in found.items() if model_id in models}
    jsonio.write(
        tree_layout.explanation(folder, KIND, tree_layout.JSON), {"evaluator": evaluator.key, "models": by_model}
    )
    lines = list(_flat(by_model))
    names = list(dict.fromkeys(name for line in lines for name in line))
    with tree_layout.explanation(folder, KIND, tree_layout.CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(lines)


def _flat(by_model: Mapping[str, Details]) -> Iterator[dict[str, Any]]:
    for model, details in by_model.items():
        for line in details.get("labels", ()):
            yield {"model": model, "label_key": line["key"], "label": line["value"], **line["values"]}
