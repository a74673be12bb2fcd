"""Certifying a judge: the configuration of a run is asked about labelled rows, and held against people's labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings.judge_config import JudgeConfig
from leadline.tasks.judges.drift.epochs import with_epochs
from leadline.tasks.judges.labels.certificates import Certificate, certificate_of, keep_certificate
from leadline.tasks.judges.labels.dataset_labels import dataset_labels
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, read_judged_rows
from leadline.tasks.judges.labels.judging import Judging, LabelsNeed, judge_labelled_rows, judging_by, need_of
from leadline.tasks.judges.labels.known_labels import KnownLabels, known_labels
from leadline.tasks.judges.labels.label_report import LabelReport, report_labels
from leadline.tasks.judges.labels.labelled_rows import LabelledRows, find_labelled_rows
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.store.store import JOBS, Run, Store


@dataclass(frozen=True, slots=True)
class Certifying:
    """A judge's configuration and the labelled rows that it is to be held against.

    Attributes:
        run: The run whose configuration it is.
        metric: The metric in that run.
        known: What people said, with all rows of the run as a sample where nobody drew any and each has a label.
        rows: The labelled rows, or the half of them that is held out.
        judging: The configuration as it is now.
        held_out: Whether only the held-out half counts.
    """

    store: Store
    run: Run
    metric: JudgedMetric
    known: KnownLabels
    rows: LabelledRows
    judging: Judging
    held_out: bool

    @property
    def changed(self) -> bool:
        """True where prompt or judge are no longer those of the run."""
        return self.judging.metric.config != self.metric.config

    def need(self) -> LabelsNeed:
        """Return what judging the rows still takes."""
        return need_of(self.store, self.rows, self.judging)

    def certified(self, limits: Limits) -> tuple[Certificate, LabelReport]:
        """Ask the judge what it was not asked yet, and return its certificate, which is kept if it was earned.

        Rows that nobody drew from others certify it for no other rows, so that this is not kept.

        Args:
            limits: What may be spent.
        """
        judged = judge_labelled_rows(self.store, self.rows, self.judging, limits=limits).judged_rows()
        keys = {row.key for row in self.rows.rows}
        labels = [label for label in self.known.labels if label.key in keys]
        report = report_labels(judged, labels, self.known.samples, bootstrapped=False)
        found = certificate_of(self.judging.metric, report, self.run.id, self.known.names, held_out=self.held_out)
        if found.is_earned and not self.known.is_whole:
            keep_certificate(self.known.sets[0], found)
        return found, report


def prepare_certifying(
    store: Store,
    run: Run,
    question: str,
    set_name: str | None = None,
    *,
    judges: Sequence[JudgeConfig] = (),
    held_out: bool = False,
) -> Certifying:
    """Return what certifying the configuration of a run needs.

    Args:
        run: The run, whose settings, parameters and threshold count; prompts and judges are read as they are now.
        question: ``EVALUATOR`` or ``EVALUATOR.METRIC``; ``""`` for the only one that there are labels of.
        set_name: The only set of labels that counts; by default all together, with those of the run's dataset.
        judges: The judge in the place of the run's, and after it the others that can be asked.
        held_out: Take only the half of the rows on which a choice is certified.

    Raises:
        UsageError: There is no such set or metric, or the run's plan is gone.
    """
    known = known_labels(store, set_name, lambda: [dataset_labels(store, run)])
    rows = find_labelled_rows(store, known, question)
    labels, judged = known[rows.question], read_judged_rows(store, run, rows.question)
    metric = judged.metric
    if not labels.samples:
        labels = labels.with_whole_models(judged, run.id)
    store.fetch_plan(run)
    if not (run.plan / JOBS).exists():
        raise UsageError(
            f"The plan of run {run.id} is gone, and with it the judge's configuration.",
            hint="Evaluate again; nothing that the store has is computed twice.",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    settings, jobs = read_jobs(run.plan / JOBS)
    params = next(dict(job.params) for job in jobs if job.evaluator == metric.evaluator)
    in_epochs = with_epochs(store, replace(settings, judges=tuple(judges) or settings.judges))
    judging = judging_by(rows, in_epochs.judges, settings, params)
    judging = replace(judging, metric=replace(judging.metric, threshold=metric.threshold))
    return Certifying(store, run, metric, labels, rows.half(held_out=True) if held_out else rows, judging, held_out)
