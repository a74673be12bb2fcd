"""Judges that are held against people's labels: certifying one, and comparing several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.choice import evaluator_files_of
from leadline.evaluators.settings import JudgeConfig, JuryConfig
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.settings import JudgeAccess
from leadline.tasks.judges.drift.epochs import with_epochs
from leadline.tasks.judges.labels.certificates import Certificate, certificate_of, keep_certificate
from leadline.tasks.judges.labels.judge_comparison import JudgeComparison, compare_judges
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, read_judged_rows
from leadline.tasks.judges.labels.judging import (
    JudgedLabels,
    Judging,
    LabelsNeed,
    configuration_of,
    judge_labelled_rows,
    judging_by,
    need_of,
    new_occasion,
)
from leadline.tasks.judges.labels.known_labels import KnownLabels, dataset_labels, known_labels, labels_of_datasets
from leadline.tasks.judges.labels.label_report import LabelReport, report_labels
from leadline.tasks.judges.labels.labelled_rows import LabelledRows, find_labelled_rows
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.plan.cost import require_prices
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.store.store import JOBS, Run, Store


@dataclass(frozen=True, slots=True)
class Certifying:
    """A judge's configuration and the labelled rows that it is to be held against.

    Attributes:
        known: What people said, with all rows of the run as a sample where nobody drew any and each has a label.
        rows: The labelled rows, or the half of them that is held out.
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


@dataclass(frozen=True, slots=True)
class Candidates:
    """Judges that are to be compared on labelled rows.

    Attributes:
        access: What may be spent, and where judges are named.
        held_out: Whether the rows are the half on which choices are certified.
    """

    store: Store
    labelled: LabelledRows
    access: JudgeAccess
    judgings: dict[str, Judging]
    held_out: bool

    def needs(self) -> dict[str, LabelsNeed]:
        """Return the calls that each judge still has to answer."""
        return {name: need_of(self.store, self.labelled, judging) for name, judging in self.judgings.items()}

    def judged(self) -> dict[str, JudgedLabels]:
        """Ask the judges for what the store lacks, one after the other, and return their verdicts.

        Raises:
            UsageError: Money is limited, and the price of a judge is unknown.
        """
        limits, occasion = limits_of(self.access), new_occasion()
        for judging in self.judgings.values():
            require_prices([judging.evaluator], judging.settings, limits)
        return {
            name: judge_labelled_rows(self.store, self.labelled, judging, limits=limits, occasion=occasion)
            for name, judging in self.judgings.items()
        }

    def compared(self, judged: dict[str, JudgedLabels]) -> JudgeComparison:
        """Return the comparison of judges with what their replies cost."""
        calls = (digest for each in judged.values() for verdict in each.verdicts for digest in verdict.calls)
        return compare_judges(judged, read_ledger(self.store).replies(calls), held_out=self.held_out)


def candidates(
    store: Store,
    names: Sequence[str],
    set_name: str | None,
    question: str,
    access: JudgeAccess,
    *,
    held_out: bool = False,
) -> Candidates:
    """Return judges that are to be compared, before any is asked.

    Args:
        names: Judges as ``--judge`` takes them.
        set_name: The only set of labels that counts; by default all together, with those of the store's datasets.
        question: ``EVALUATOR.METRIC`` or ``EVALUATOR``; ``""`` where people answered one question.
        access: What may be spent, and where judges are named.
        held_out: Take only the half of the rows on which choices are certified.

    Raises:
        UsageError: There are fewer than two names, one comes twice, or there is no such judge, set or question.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if len(names) < 2 or twice:
        raise UsageError(
            f"The judge {twice[0]!r} is named twice." if twice else "One judge alone cannot be compared.",
            hint="Name two judges or more: leadline judges compare A B",
            code=ErrorCode.JUDGE_CONFIG,
        )
    known = known_labels(store, set_name, lambda: labels_of_datasets(store))
    labelled = find_labelled_rows(store, known, question)
    if held_out:
        labelled = labelled.half(held_out=True)
    judgings = {name: judging_named(store, labelled, access.model_copy(update={"model": name})) for name in names}
    return Candidates(store, labelled, access, judgings, held_out)


def judging_named(store: Store, labelled: LabelledRows, access: JudgeAccess) -> Judging:
    """Return a judge with the evaluator that people labelled, set up as in the run of which rows were drawn.

    Args:
        access: Names the judge as ``--judge`` does, and the configuration file.

    Raises:
        UsageError: There is no such judge, or the evaluator asks no judge.
    """
    settings, params = configuration_of(store, labelled)
    files = tuple(dict.fromkeys((*settings.evaluator_files, *evaluator_files_of((), access.config))))
    settings = with_epochs(store, replace(settings, evaluator_files=files, judges=judges_of(access)))
    return judging_by(labelled, settings.judges, settings, params)


def jury_named(name: str, access: JudgeAccess) -> JuryConfig:
    """Return a jury of the configuration file.

    Raises:
        UsageError: It is no jury.
    """
    judge = judges_of(access.model_copy(update={"model": name}))[0]
    if not isinstance(judge, JuryConfig):
        raise UsageError(
            f"{name[:100]!r} is no jury.",
            hint='Write one into leadline.toml: [judges.NAME] with jury = ["A", "B", "C"]',
            code=ErrorCode.JUDGE_CONFIG,
        )
    return judge
