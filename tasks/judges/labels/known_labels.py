"""Labels of metrics and of questions: from all sets in the store and datasets' column ``labels``, or from one set.

Labels of a question decide it in the runs of the dataset whose rows were drawn for them, or of which every answer of a
model has one. Labels that somebody gave to rows of their own choice say nothing of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from leadline.tasks.db import literal, open_run, records, replace_lines, sql
from leadline.tasks.judges.labels.certificates import Certificate, kept_certificates
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows, read_judged_rows, read_metric, rows_of
from leadline.tasks.judges.labels.label_sets import (
    LabelSample,
    LabelSet,
    SampledRow,
    find_label_set,
    label_sets,
    labels_by_key,
)
from leadline.tasks.load.label import LABELS_FILE, Label, consensus
from leadline.tasks.policy.questions import DECIDED_BY_ROWS, Question
from leadline.tasks.store.store import DROPPED, SCHEMA, Run, Store

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection


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


CRITERIA: Final[Mapping[str, tuple[str, str]]] = {
    Question.RIGHT: (
        "Is this answer right?",
        "Right: it answers the question as the expected answer does, whatever its words, and says nothing that is "
        "false. Wrong: it says something else, leaves out what matters, or does not answer.",
    ),
    Question.GROUNDED: (
        "Does this answer rest on what was retrieved?",
        "Yes: everything that it states stands in the retrieved texts or follows from them. No: something does not, "
        "even if it is true.",
    ),
}
"""What people are asked, and how they are to decide, by the question."""


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """Labels that people gave in answer to one question.

    Attributes:
        question: ``EVALUATOR.METRIC``.
        sets: The sets that have labels or samples of it, by name.
        labels: The last label of each person on each row.
        certificates: What judges earned with these labels, oldest first.
        runs: The runs with whose datasets some of the labels came.
    """

    question: str
    sets: tuple[LabelSet, ...]
    labels: tuple[Label, ...]
    samples: tuple[LabelSample, ...]
    certificates: tuple[Certificate, ...]
    runs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sets, and ``dataset`` for labels that came with one."""
        return (*(each.name for each in self.sets), *(["dataset"] if self.runs else []))

    @property
    def name(self) -> str:
        """The same in one line."""
        return ", ".join(self.names)

    @property
    def is_whole(self) -> bool:
        """True if all rows of a model are one of the samples."""
        return any(sample.id == WHOLE for sample in self.samples)

    def with_whole_models(self, judged: JudgedRows, run: str) -> KnownLabels:
        """Return the same with the sample that all rows of a run are, of models whose judged rows are all labelled."""
        whole = whole_sample(judged, run, self.labels, self.samples)
        return self if whole is None else replace(self, samples=(*self.samples, whole))


def known_labels(
    store: Store, set_name: str | None = None, brought: Callable[[], Sequence[DatasetLabels]] = tuple
) -> dict[str, KnownLabels]:
    """Return what people said, by question. The same person's later label of a row counts, whatever its set.

    Args:
        set_name: Only this set of labels, and certificates earned with it alone; by default all together.
        brought: Returns labels that came with datasets, which count beside those of the sets unless one is named; those
            of a later dataset go before those of an earlier one.

    Raises:
        UsageError: There is no such set.
    """
    sets = label_sets(store) if set_name is None else [find_label_set(store, set_name)]
    found: dict[str, list[tuple[LabelSet, list[Label], list[LabelSample]]]] = {}
    for each in sets:
        labels, samples = each.labels(), each.samples()
        for question in {label.question for label in labels} | {sample.question for sample in samples}:
            own = [label for label in labels if label.question == question]
            drawn = [sample for sample in samples if sample.question == question]
            found.setdefault(question, []).append((each, own, drawn))
    extra: dict[str, list[tuple[str, Label]]] = {}
    for given in () if set_name else sorted(brought(), key=lambda labels: labels.run):
        for label in given.labels:
            extra.setdefault(label.question, []).append((given.run, label))
    return {
        question: _joined(question, found.get(question, ()), extra.get(question, ()), only=set_name)
        for question in sorted(found.keys() | extra.keys())
    }


def labels_of_question(
    store: Store, question: str, set_name: str | None, brought: Callable[[], Sequence[DatasetLabels]]
) -> KnownLabels:
    """Return what people said in answer to one question, which may be nothing.

    Args:
        question: ``EVALUATOR.METRIC``.
        set_name: Only this set of labels; by default all together.

    Raises:
        UsageError: There is no such set.
    """
    found = known_labels(store, set_name, brought)
    return found.get(question) or KnownLabels(question, (), (), (), ())


def _joined(
    question: str,
    parts: Sequence[tuple[LabelSet, list[Label], list[LabelSample]]],
    given: Sequence[tuple[str, Label]],
    *,
    only: str | None,
) -> KnownLabels:
    of_datasets = (label for _, label in given)
    every = sorted((*of_datasets, *(label for _, labels, _ in parts for label in labels)), key=lambda label: label.at)
    return KnownLabels(
        question=question,
        sets=tuple(each for each, _, _ in parts),
        labels=tuple({(label.key, label.person): label for label in every}.values()),
        samples=tuple(sample for _, _, samples in parts for sample in samples),
        certificates=tuple(
            sorted(
                (
                    found
                    for each, _, _ in parts
                    for found in kept_certificates(each, question)
                    if only is None or found.label_sets == (only,)
                ),
                key=lambda certificate: certificate.earned,
            )
        ),
        runs=tuple(dict.fromkeys(run for run, _ in given)),
    )


def rows_asked(store: Store, run: Run, name: str) -> JudgedRows:
    """Return the rows of a run about which people are asked: those that a metric scored, or all that have an answer.

    Args:
        name: ``EVALUATOR``, ``EVALUATOR.METRIC``, or one of :data:`CRITERIA`.

    Raises:
        UsageError: The run has no such metric, or it has no values of rows.
    """
    if name not in CRITERIA:
        return read_judged_rows(store, run, name)
    with open_run(store, run, read_only=True) as connection:
        return _answered(connection, name)


def metric_asked(store: Store, run: Run, name: str) -> JudgedMetric:
    """Return what people are asked about the rows of a run.

    Args:
        name: ``EVALUATOR``, ``EVALUATOR.METRIC``, or one of :data:`CRITERIA`.

    Raises:
        UsageError: The run has no such metric, or it has no values of rows.
    """
    return _question_metric(name) if name in CRITERIA else read_metric(store, run, name)


def _question_metric(question: str) -> JudgedMetric:
    name, criterion = CRITERIA[question]
    return JudgedMetric(question, "", None, True, 0.0, 1.0, True, -1, name, criterion, "")


def _answered(connection: DuckDBPyConnection, question: str) -> JudgedRows:
    query = sql("labels/answered").format(row_key=sql("labels/row_key"))
    return rows_of(connection, _question_metric(question), query)


def show_question_labels(
    connection: DuckDBPyConnection, store: Store, run: Run, known: Mapping[str, KnownLabels]
) -> None:
    """Fill the table ``question_labels``."""
    lines = []
    for question in CRITERIA.keys() & known.keys():
        said = known[question]
        rows = _answered(connection, question)
        drawn = _drawn(store, run, said)
        by_key = labels_by_key(said.labels)
        agreed = {key: consensus(labels, binary=True) for key, labels in by_key.items()}
        whole = set(rows.models) - {
            model for model, key in zip(rows.models, rows.keys, strict=True) if agreed.get(key) is None
        }
        lines += [
            {"question": question, "row_id": int(row), "good": good}
            for row, key, model in zip(rows.rows, rows.keys, rows.models, strict=True)
            if (good := agreed.get(key)) is not None and (model in whole or key in drawn)
        ]
    replace_lines(connection, "question_labels", lines)


def _drawn(store: Store, run: Run, said: KnownLabels) -> set[str]:
    """Return the keys of rows that were drawn at random from the rows of this run's dataset."""
    dataset = run.read().get("dataset")
    given = {label.sample for label in said.labels}
    of_dataset = [
        sample
        for sample in said.samples
        if sample.id in given and (sample.run == run.id or _dataset_of(store, sample.run) == dataset)
    ]
    return {row.key for sample in of_dataset for row in sample.rows}


def _dataset_of(store: Store, run: str) -> str:
    return next((str(each.read().get("dataset")) for each in store.runs() if each.id == run), "")
