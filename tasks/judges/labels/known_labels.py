"""Labels of metrics and of questions: from all sets in the store and from datasets, or from one set.

Labels of a question decide it in the runs of the dataset whose rows were drawn for them, or of which every answer of a
model has one. Labels that somebody gave to rows of their own choice say nothing of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from leadline.tasks.db import open_run, replace_lines, sql
from leadline.tasks.judges.labels.certificates import Certificate, kept_certificates
from leadline.tasks.judges.labels.dataset_labels import WHOLE, DatasetLabels, whole_sample
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows, rows_of
from leadline.tasks.judges.labels.label_sets import LabelSample, LabelSet, find_label_set, label_sets
from leadline.tasks.load.label import Label, consensus
from leadline.tasks.policy.policy import Question
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
        samples: The samples in which rows were drawn.
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
        brought: Returns labels that came with datasets.

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


def question_rows(store: Store, run: Run, question: str) -> JudgedRows:
    """Return the answered rows of a run, as people are asked a question about them.

    Args:
        question: One of :data:`CRITERIA`.
    """
    with open_run(store, run, read_only=True) as connection:
        return _answered(connection, question)


def _answered(connection: DuckDBPyConnection, question: str) -> JudgedRows:
    name, criterion = CRITERIA[question]
    metric = JudgedMetric(-1, question, "", name, criterion, "", None, True, 0.0, 1.0, is_share=True)
    return rows_of(connection, metric, sql("labels/answered").format(row_key=sql("labels/row_key")))


def show_question_labels(
    connection: DuckDBPyConnection, store: Store, run: Run, known: Mapping[str, KnownLabels]
) -> None:
    """Fill the table ``question_labels``.

    Args:
        known: What people said, by question.
    """
    lines = []
    for question in CRITERIA.keys() & known.keys():
        said = known[question]
        rows = _answered(connection, question)
        drawn = _drawn(store, run, said)
        by_key: defaultdict[str, list[Label]] = defaultdict(list)
        for label in said.labels:
            by_key[label.key].append(label)
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
