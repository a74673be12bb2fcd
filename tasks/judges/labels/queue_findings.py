"""Findings of a queue so far: how far people and judge agree, the corrected value, and what is still wanted.

They are held against the last run of which rows were drawn for it, as ``leadline labels report`` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leadline.tasks.judges.labels.known_labels import CRITERIA, labels_of_question, rows_asked
from leadline.tasks.judges.labels.label_report import LabelledModel, LabelReport, report_labels
from leadline.tasks.judges.labels.queues import LabelQueue
from leadline.tasks.judges.labels.run_corrections import STATES, agreement_in_words, measure
from leadline.tasks.statistics.label_correction import Corrected, in_words
from leadline.tasks.store.store import Store


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
        agreement: How far the judge agrees with people.
        among_people: How far people agree among themselves.
        state: Whether the labels certify the judge.
        more: About how many labels more would tell.
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
