"""Queues of rows that people label one at a time: whose turn a row is, what is seen of it, and where people differ.

Everybody gets the rows of a set's samples in the order in which they were drawn, and each label is written at once. A
person who changes their mind gives a second label: the store keeps both, and the last one counts. What the labels tell
so far is held against the last run of which rows were drawn, as ``leadline labels report`` does.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import attach_dataset, connect, sql
from leadline.tasks.judges.labels.known_labels import CRITERIA, known_labels, labels_of_question, rows_asked
from leadline.tasks.judges.labels.label_report import LabelledModel, LabelReport, report_labels
from leadline.tasks.judges.labels.label_sets import LabelSet, labels_by_key
from leadline.tasks.judges.labels.labelled_rows import find_labelled_rows, texts_of
from leadline.tasks.judges.labels.run_corrections import STATES, agreement_in_words, measure
from leadline.tasks.load.label import ADJUDICATED, Label, read_label
from leadline.tasks.statistics.label_correction import Corrected, in_words
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class QueuedRow:
    """A row that people were given.

    Attributes:
        key: Digest of what they see of it.
    """

    key: str
    case: str
    model: str
    run: str
    sample: str


@dataclass(frozen=True)
class LabelQueue:
    """The rows of a set that people are asked one thing about, in the order in which they were drawn.

    Attributes:
        question: ``EVALUATOR.METRIC``, or a question such as ``right``.
        labels: The last label of each person on each row, those of rows that nobody drew too.
    """

    labels_of: LabelSet
    question: str
    rows: tuple[QueuedRow, ...]
    labels: tuple[Label, ...]

    @cached_property
    def place_of(self) -> dict[str, int]:
        """The place of each row in the queue, by its key."""
        return {row.key: place for place, row in enumerate(self.rows)}

    @property
    def run(self) -> str:
        """The run of which rows were drawn last, ``""`` without any."""
        return max((row.run for row in self.rows), default="")

    def said_by(self, person: str) -> dict[str, Label]:
        """Return what a person said, by the row's key."""
        return {label.key: label for label in self.labels if label.person == person}

    def progress(self) -> tuple[int, dict[str, int]]:
        """Return how many rows of the queue have a label, and how many each person has labelled."""
        given = [label for label in self.labels if label.key in self.place_of]
        people = Counter(label.person for label in given if label.person != ADJUDICATED)
        return len({label.key for label in given}), dict(sorted(people.items()))

    def next_for(self, person: str, after: str = "") -> QueuedRow | None:
        """Return the next row that a person has not labelled, ``None`` at the end; skipped ones come last.

        Args:
            after: Key of the row from which to go on.
        """
        said = self.said_by(person)
        start = self.place_of.get(after, -1) + 1
        left = [row for row in (*self.rows[start:], *self.rows[:start]) if row.key not in said]
        return left[0] if left else None

    def before(self, key: str) -> QueuedRow | None:
        """Return the row before another one, ``None`` for the first."""
        place = self.place_of.get(key, 0)
        return self.rows[place - 1] if place else None

    def differing(self) -> dict[str, tuple[Label, ...]]:
        """Return the labels of rows of which people say different things, the farthest apart first, decided ones last.

        Those who can't tell contradict nobody.
        """
        by_key = labels_by_key(sorted(self.labels, key=lambda label: (label.person == ADJUDICATED, label.person)))

        def order(key: str) -> tuple[bool, float, int]:
            decided = by_key[key][-1].person == ADJUDICATED
            return decided, -_apart(by_key[key]), self.place_of.get(key, len(self.rows))

        return {key: tuple(by_key[key]) for key in sorted(by_key, key=order) if _apart(by_key[key]) > 0}


def _apart(labels: Sequence[Label]) -> float:
    """Return how far apart the values are that people gave."""
    values = [label.value for label in labels if label.value is not None and label.person != ADJUDICATED]
    return max(values) - min(values) if values else 0.0


def queues_of(labels_of: LabelSet) -> dict[str, LabelQueue]:
    """Return the queues of a set by what people are asked."""
    rows: defaultdict[str, dict[str, QueuedRow]] = defaultdict(dict)
    for sample in sorted(labels_of.samples(), key=lambda sample: (sample.run, len(sample.rows))):
        for row in sample.rows:
            queued = QueuedRow(row.key, row.case, row.model, sample.run, sample.id)
            rows[sample.question].setdefault(row.key, queued)
    labels: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels_of.labels():
        labels[label.question].append(label)
    return {
        question: LabelQueue(labels_of, question, tuple(rows[question].values()), tuple(labels[question]))
        for question in sorted(rows.keys() | labels.keys())
    }


def queue_of(labels_of: LabelSet, question: str = "") -> LabelQueue:
    """Return the queue of a set in which people are asked one thing.

    Args:
        question: What they are asked; ``""`` for the first.

    Raises:
        UsageError: Nobody is asked that.
    """
    found = queues_of(labels_of)
    queue = found.get(question or next(iter(found), ""))
    if queue is None:
        raise UsageError(
            f"The set {labels_of.name!r} asks nothing of {question[:100]!r}.",
            hint=f"It asks: {', '.join(found)}." if found else "",
            code=ErrorCode.LABEL_SET,
        )
    return queue


def seen_of(store: Store, row: QueuedRow) -> dict[str, Any] | None:
    """Return what a person sees of a row: its texts, and the ``messages`` of a conversation.

    Returns:
        ``None`` where the dataset is no longer in the store.
    """
    dataset = str(store.run(row.run).read().get("dataset", ""))
    if not dataset or not store.has_dataset(dataset):
        return None
    with connect() as connection:
        attach_dataset(connection, store.dataset(dataset))
        number = _row_number(connection, row)
        if number is None:
            return None
        talk = connection.execute(sql("labels/messages"), {"row": number}).fetchone()
        texts = texts_of(connection, [number])[number]
    return texts | {"messages": orjson.loads(talk[0]) if talk and talk[0] else []}


def _row_number(connection: DuckDBPyConnection, row: QueuedRow) -> int | None:
    """Return the number of a row in the dataset that is attached, as long as its texts are those that were drawn.

    One question after the other: of a million rows a single one that joins all takes ten times as long.
    """
    case = connection.execute(sql("labels/case_of_key"), {"case": row.case}).fetchone()
    about = {"case": case[0] if case else None, "model": row.model}
    key_of_row = sql("labels/key_of_row").format(row_key=sql("labels/row_key"))
    for (number,) in connection.execute(sql("labels/row_of_case"), about).fetchall():
        if connection.execute(key_of_row, {"row": number}).fetchone() == (row.key,):
            return int(number)
    return None


def seen_of_labels(store: Store, queue: LabelQueue, labels: Sequence[Label]) -> dict[str, dict[str, Any]]:
    """Return the texts of labelled rows by their keys; those whose dataset is gone are left out."""
    if not labels:
        return {}
    known = known_labels(store, queue.labels_of.name)[queue.question]
    wanted = {queue.question: replace(known, labels=tuple(labels))}
    by_dataset: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for row in find_labelled_rows(store, wanted, queue.question).rows:
        by_dataset[row.dataset][row.row_id] = row.key
    found: dict[str, dict[str, Any]] = {}
    for dataset, keys in by_dataset.items():
        with connect() as connection:
            attach_dataset(connection, store.dataset(dataset))
            found |= {keys[row_id]: texts for row_id, texts in texts_of(connection, list(keys)).items()}
    return found


def give_label(queue: LabelQueue, key: str, given: Mapping[str, str], person: str) -> Label:
    """Write a person's label of a row, and return it.

    Args:
        key: Digest of what they saw.
        given: ``value`` as people write it, and a ``note``.

    Raises:
        UsageError: The queue has no such row, or the label makes no sense.
    """
    place = queue.place_of.get(key)
    if place is None:
        raise UsageError("This row is not in the queue.", code=ErrorCode.LABEL_SET)
    if not person or person.strip().casefold() == ADJUDICATED:
        raise UsageError(
            "A label needs the name of a person.",
            hint=f"{ADJUDICATED!r} is the name of what was agreed on.",
            code=ErrorCode.LABEL_FILE,
        )
    row = queue.rows[place]
    return _written(queue, given, person, key=key, case=row.case, model=row.model, sample=row.sample)


def decide(queue: LabelQueue, key: str, given: Mapping[str, str], person: str) -> Label:
    """Write the label that stands for all others of a row, with the name of the person who decided.

    Raises:
        UsageError: People do not differ about the row, or the label makes no sense.
    """
    labels = queue.differing().get(key)
    if labels is None:
        raise UsageError("People do not differ about this row.", code=ErrorCode.LABEL_SET)
    note = " ".join(part for part in (given.get("note", "").strip(), f"(decided by {person})") if part)
    about = max(labels, key=lambda label: label.sample)
    decided = dict(given) | {"note": note}
    return _written(queue, decided, ADJUDICATED, key=key, case=about.case, model=about.model, sample=about.sample)


def _written(queue: LabelQueue, given: Mapping[str, str], person: str, **row: str) -> Label:
    """Write a label with the time in microseconds: of two within a second, the second one counts."""
    if not given.get("value"):
        raise UsageError("No value was chosen.", code=ErrorCode.LABEL_FILE)
    about = {"question": queue.question, "person": person, "at": datetime.now(UTC).isoformat(timespec="microseconds")}
    told = {"value": given["value"], "note": given.get("note", "").replace("\r\n", "\n").strip()}
    label = read_label(about | row | told, "This label")
    queue.labels_of.add([label])
    return label


def choices(low: float, high: float, *, binary: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what a person may say of a row: the value, its words, and its keys; nothing for a wide range of numbers."""
    if binary:
        yield from (("good", "Good", "1 g"), ("bad", "Bad", "0 b"))
    elif math.isfinite(low) and math.isfinite(high) and low == int(low) and 1 < high - low < 10 and low >= 0:
        for value in range(int(low), int(high) + 1):
            yield str(value), str(value), str(value) if value < 10 else ""


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """A model's value as the judge has it and as people have it, in words.

    Attributes:
        model: "" for all together.
        judge: "" where no judge was asked.
        corrected: "" where labels do not tell.
    """

    model: str
    labels: int
    judge: str
    corrected: str


@dataclass(frozen=True, slots=True)
class QueueFindings:
    """Findings of a queue in words, "" for what cannot be told.

    Attributes:
        tied: Rows on which as many people say one thing as the other.
    """

    models: tuple[ModelFinding, ...]
    agreement: str
    among_people: str
    state: str
    more: str
    tied: int


def findings_of(store: Store, queue: LabelQueue) -> QueueFindings:
    """Return what the labels of a queue say of the last run of which rows were drawn for it.

    Raises:
        UsageError: The run has no results any more.
    """
    run = store.run(queue.run)
    judged = rows_asked(store, run, queue.question)
    known = labels_of_question(store, queue.question, queue.labels_of.name, tuple)
    if queue.question in CRITERIA:  # no judge was asked
        report = report_labels(judged, known.labels, known.samples)
        models = tuple(_model(report, model, "", model.labels_alone) for model in report.models)
        return QueueFindings(models, "", _among_people(report), "", "", report.tied)
    measured = measure(judged, known, run.id, keep=False, bootstrapped=True)
    report = measured.report
    last = report.models[-1] if report.models else None
    return QueueFindings(
        models=tuple(
            _model(report, model, _value(report, model.judge), measured.corrected(model)) for model in report.models
        ),
        agreement=agreement_in_words(replace(measured.certificate, people_alpha=None)),
        among_people=_among_people(report),
        state=STATES[measured.state],
        more=in_words(last.more_labels) if last and last.state in ("few", "open") else "",
        tied=report.tied,
    )


def _model(report: LabelReport, model: LabelledModel, judge: str, corrected: Corrected | None) -> ModelFinding:
    return ModelFinding(model.model, model.labels, judge, corrected.words(share=report.binary) if corrected else "")


def _value(report: LabelReport, value: float) -> str:
    return f"{100 * value:.1f} %" if report.binary else f"{value:.3f}"


def _among_people(report: LabelReport) -> str:
    if math.isnan(report.people_alpha):
        return ""
    return f"alpha {report.people_alpha:.2f} ({report.people_alpha_low:.2f} to {report.people_alpha_high:.2f})"
