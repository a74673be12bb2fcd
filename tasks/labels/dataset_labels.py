"""Labels that came with a run's dataset, in its column ``labels``; they count beside those of the store's sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from leadline.tasks.db.connection import literal
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.labels.label import Label
from leadline.tasks.labels.label_sets import Sample, SampledRow
from leadline.tasks.load.staging import LABELS_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from leadline.tasks.labels.judged_rows import JudgedRows

WHOLE: Final = "whole"
"""Id of the sample that all rows of a model are."""


def dataset_labels(connection: DuckDBPyConnection, dataset: Path) -> list[Label]:
    """Return the labels that came with a dataset, of the metrics that a run has.

    Args:
        connection: The run's database, with the dataset's views.
        dataset: The dataset's folder.
    """
    path = dataset / LABELS_FILE
    if not path.exists():
        return []
    metrics = {line["name"]: line["id"] for line in records(connection, sql("labels/names"))}
    lines = records(connection, sql("labels/given").format(labels=literal(path)))
    return [
        Label(
            key=line["key"],
            question=metrics[line["question"]],
            value=line["value"],
            person=line["person"],
            at="",
            case=line["case_key"],
            model=line["model_key"],
            note=line["note"] or "",
        )
        for line in lines
        if line["question"] in metrics
    ]


def whole_sample(judged: JudgedRows, run: str, labels: Sequence[Label], samples: Sequence[Sample]) -> Sample | None:
    """Return as a sample the rows of those models of which every judged row has a label: nobody chose among them.

    Args:
        judged: The rows.
        run: The run.
        labels: Labels of the metric.
        samples: The samples in which rows were drawn.

    Returns:
        The sample, in which each row has the chance 1; ``None`` where there is no such model, or its rows were drawn.
    """
    labelled = {label.key for label in labels}
    drawn = {(row.key, row.model) for sample in samples for row in sample.rows}
    pairs = list(zip(judged.keys, judged.models, strict=True))
    partly = {model for key, model in pairs if key not in labelled}
    whole = {pair[1] for pair in pairs if pair not in drawn} - partly
    if not whole:
        return None
    rows = zip(judged.keys, judged.cases, judged.models, strict=True)
    return Sample(
        id=WHOLE,
        run=run,
        question=judged.metric.id,
        how="uniform",
        seed=0,
        config=judged.metric.config,
        judged=len(judged.rows),
        rows=tuple(SampledRow(key, case, model, "", 1.0) for key, case, model in rows if model in whole),
    )
