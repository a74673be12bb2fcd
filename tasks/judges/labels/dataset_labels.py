"""Labels that came with datasets, in their column ``labels``; they count beside those of the store's sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leadline.tasks.db import literal, open_run, records, sql
from leadline.tasks.judges.labels.label_sets import LabelSample, SampledRow
from leadline.tasks.load.label import Label
from leadline.tasks.load.staging import LABELS_FILE
from leadline.tasks.policy.policy import DECIDED_BY_ROWS
from leadline.tasks.store.store import DROPPED, SCHEMA, Run, Store

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from leadline.tasks.judges.labels.judged_rows import JudgedRows

WHOLE: Final = "whole"
"""Id of the sample that all rows of a model are."""


@dataclass(frozen=True, slots=True)
class DatasetLabels:
    """Labels that came with the dataset of a run.

    Attributes:
        labels: Those of metrics that the run has.
    """

    run: str
    labels: tuple[Label, ...]


def dataset_labels(store: Store, run: Run) -> DatasetLabels:
    """Return the labels that came with the dataset of a run."""
    if not _labels_came(store, run.read()["dataset"]):
        return DatasetLabels(run.id, ())
    with open_run(store, run, read_only=True) as connection:
        return open_dataset_labels(connection, store, run)


def labels_of_datasets(store: Store) -> list[DatasetLabels]:
    """Return the labels that came with the datasets of a store, by the youngest runs that have their metrics."""
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    for run in reversed(store.runs()):
        record = run.read()
        if (record.get("schema"), record.get("status")) == (SCHEMA, "completed") and not record.get(DROPPED):
            runs[record["dataset"]].append(run)
    return [
        found
        for dataset in runs
        if _labels_came(store, dataset)
        for found in _of_runs(store, store.dataset(dataset) / LABELS_FILE, runs[dataset])
    ]


def _of_runs(store: Store, path: Path, runs: Sequence[Run]) -> Iterator[DatasetLabels]:
    """Yield the labels of a dataset from its runs, youngest first, each metric's from one of them."""
    from pyarrow import parquet

    left, told = parquet.read_metadata(path).num_rows, set()
    for run in runs:
        if not left:
            return
        found = dataset_labels(store, run)
        fresh = tuple(label for label in found.labels if label.question not in told)
        told |= {label.question for label in fresh}
        left -= len(fresh)
        if fresh:
            yield DatasetLabels(run.id, fresh)


def _labels_came(store: Store, dataset: str) -> bool:
    """Return whether a dataset brought labels, after fetching it if another host loaded it."""
    return store.has_dataset(dataset) and (store.dataset(dataset) / LABELS_FILE).exists()


def open_dataset_labels(connection: DuckDBPyConnection, store: Store, run: Run) -> DatasetLabels:
    """Return the labels that came with the dataset of a run that is open.

    Args:
        connection: The run's database, with the dataset's views.
    """
    dataset = run.read()["dataset"]
    if not _labels_came(store, dataset):
        return DatasetLabels(run.id, ())
    metrics = {line["name"]: line["id"] for line in records(connection, sql("labels/names"))}
    metrics |= {question: question for question in DECIDED_BY_ROWS}
    path = store.dataset(dataset) / LABELS_FILE
    lines = records(connection, sql("labels/given").format(labels=literal(path), row_key=sql("labels/row_key")))
    labels = (
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
    )
    return DatasetLabels(run.id, tuple(labels))


def whole_sample(
    judged: JudgedRows, run: str, labels: Sequence[Label], samples: Sequence[LabelSample]
) -> LabelSample | None:
    """Return as a sample the rows of those models of which every judged row has a label: nobody chose among them.

    Args:
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
    return LabelSample(
        id=WHOLE,
        run=run,
        question=judged.metric.id,
        how="uniform",
        seed=0,
        config=judged.metric.config,
        judged=len(judged.rows),
        rows=tuple(SampledRow(key, case, model, "", 1.0) for key, case, model in rows if model in whole),
    )
