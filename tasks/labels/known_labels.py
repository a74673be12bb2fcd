"""Labels that a run's metrics have: those of all sets in the store, or of the one that was named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.tasks.labels.certificates import Certificate, kept_certificates
from leadline.tasks.labels.label import Label
from leadline.tasks.labels.label_sets import LabelSet, Sample, find_label_set, label_sets
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
        of_dataset: Whether some of the labels came with a run's dataset.
    """

    question: str
    sets: tuple[LabelSet, ...]
    labels: tuple[Label, ...]
    samples: tuple[Sample, ...]
    certificates: tuple[Certificate, ...]
    of_dataset: bool = False

    @property
    def name(self) -> str:
        """The names of the sets, and ``dataset`` for labels that came with one."""
        return ", ".join([*(each.name for each in self.sets), *(["dataset"] if self.of_dataset else [])])


def known_labels(store: Store, set_name: str | None = None, given: Sequence[Label] = ()) -> dict[str, KnownLabels]:
    """Return what people said, by question. The same person's later label of a row counts, whatever its set.

    Args:
        store: The store.
        set_name: Only this set of labels; by default all together.
        given: Labels that came with a run's dataset, which count beside those of the sets.

    Raises:
        UsageError: There is no such set.
    """
    sets = label_sets(store) if set_name is None else [find_label_set(store, set_name)]
    found: dict[str, list[tuple[LabelSet, list[Label], list[Sample]]]] = {}
    for each in sets:
        labels, samples = each.labels(), each.samples()
        for question in {label.question for label in labels} | {sample.question for sample in samples}:
            own = [label for label in labels if label.question == question]
            drawn = [sample for sample in samples if sample.question == question]
            found.setdefault(question, []).append((each, own, drawn))
    extra: dict[str, list[Label]] = {}
    for label in given:
        extra.setdefault(label.question, []).append(label)
    return {
        question: _joined(question, found.get(question, ()), extra.get(question, ()))
        for question in sorted(found.keys() | extra.keys())
    }


def labels_of_set(store: Store, set_name: str, question: str) -> KnownLabels:
    """Return what people said in one set in answer to one question, which may be nothing.

    Args:
        store: The store.
        set_name: The set.
        question: ``EVALUATOR.METRIC``.

    Raises:
        UsageError: There is no such set.
    """
    found = known_labels(store, set_name)
    return found.get(question) or KnownLabels(question, (find_label_set(store, set_name),), (), (), ())


def _joined(
    question: str, parts: Sequence[tuple[LabelSet, list[Label], list[Sample]]], given: Sequence[Label]
) -> KnownLabels:
    every = sorted((*given, *(label for _, labels, _ in parts for label in labels)), key=lambda label: label.at)
    return KnownLabels(
        question=question,
        sets=tuple(each for each, _, _ in parts),
        labels=tuple({(label.key, label.person): label for label in every}.values()),
        samples=tuple(sample for _, _, samples in parts for sample in samples),
        certificates=tuple(
            sorted(
                (found for each, _, _ in parts for found in kept_certificates(each, question)),
                key=lambda certificate: certificate.earned,
            )
        ),
        of_dataset=bool(given),
    )
