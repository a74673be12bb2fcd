"""Labels that metrics have: those of all sets in the store with those of datasets, or of the one set that was named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from leadline.tasks.judges.labels.certificates import Certificate, kept_certificates
from leadline.tasks.judges.labels.dataset_labels import WHOLE, DatasetLabels, whole_sample
from leadline.tasks.judges.labels.judged_rows import JudgedRows
from leadline.tasks.judges.labels.label_sets import LabelSample, LabelSet, find_label_set, label_sets
from leadline.tasks.load.label import Label
from leadline.tasks.store.store import Store


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
