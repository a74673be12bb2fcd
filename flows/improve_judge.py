"""Improving a judge by people's labels: guidance from one half of the cases, certified on the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.evaluators.settings import UNNAMED, Guidance, JudgeConfig, JuryConfig
from leadline.flows.certify_judges import judging_named
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.settings import JudgeAccess
from leadline.tasks.judges.labels.certificates import certificate_of, keep_certificate
from leadline.tasks.judges.labels.guidance_proposal import (
    Lesson,
    lesson_of,
    longest_guidance,
    price_of_proposal,
    propose,
    texts_of_rows,
)
from leadline.tasks.judges.labels.judge_comparison import compare_judges
from leadline.tasks.judges.labels.judge_improvement import (
    Improvement,
    agreement_figure,
    keep_improvement,
    kept_improvements,
    labels_digest,
    level_of_try,
    now,
    outcome_of,
    require_labels,
)
from leadline.tasks.judges.labels.judging import (
    JudgedLabels,
    Judging,
    LabelsNeed,
    judge_labelled_rows,
    judging_by,
    need_of,
    new_occasion,
)
from leadline.tasks.judges.labels.known_labels import KnownLabels, known_labels, labels_of_datasets
from leadline.tasks.judges.labels.label_report import report_labels
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.judges.labels.labelled_rows import LabelledRows, find_labelled_rows
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.plan.cost import require_judge_price
from leadline.tasks.store.store import Store

PRESENT, CANDIDATE = "present", "candidate"


@dataclass(frozen=True, slots=True)
class Improving:
    """A judge that is to be improved, before anybody is asked."""

    store: Store
    known: KnownLabels
    training: LabelledRows
    held_out: LabelledRows
    judging: Judging
    proposer: JudgeConfig
    access: JudgeAccess

    @property
    def judge(self) -> str:
        """Name of the judge."""
        return self.judging.settings.judges[0].key

    def needs(self) -> tuple[dict[str, LabelsNeed], float | None]:
        """Return what the present judge and at most a candidate have to answer, and about the price of a proposal."""
        texts = list(texts_of_rows(self.store, self.judging, self.training.rows).values())
        longest = longest_guidance(self.judging.job.evaluator, texts)
        rows = replace(self.training, rows=(*self.training.rows, *self.held_out.rows))
        needs = {
            self.judge: need_of(self.store, rows, self.judging),
            f"{self.judge} with guidance": need_of(self.store, self.held_out, self._guided(longest)),
        }
        return needs, price_of_proposal(self.proposer, texts)

    def improved(self) -> Improvement:
        """Ask for guidance, certify it, keep what came of it beside the labels, and return that.

        The same candidate on the same labels is certified once: later calls return what is kept.

        Raises:
            UsageError: Judge and people differ nowhere, or money is limited and a price is unknown.
            LeadlineError: A judge or the model did not answer, or the budget ended first.
        """
        limits, occasion = limits_of(self.access), new_occasion()
        require_judge_price(self.proposer, limits)

        def judged(rows: LabelledRows, judging: Judging) -> JudgedLabels:
            found = judge_labelled_rows(self.store, rows, judging, limits=limits, occasion=occasion)
            _require_asked(found)
            return found

        lesson = lesson_of(self.store, judged(self.training, self.judging))
        guidance = propose(self.store, self.judging, self.proposer, lesson, limits=limits, occasion=occasion)
        guided = self._guided(guidance)
        earlier = kept_improvements(self.store, self.known.question)
        binary = self.judging.metric.is_binary
        labels, keys = labels_digest(self.held_out, binary=binary), {row.key for row in self.held_out.rows}
        same = (guided.job.config, self.judging.job.config, labels)
        for kept in earlier:
            if (kept.config, kept.present_config, kept.labels) == same:
                return replace(kept, judge=self.judge)
        tried = 1 + sum(not keys.isdisjoint(kept.held_out) for kept in earlier)
        halves = {PRESENT: judged(self.held_out, self.judging), CANDIDATE: judged(self.held_out, guided)}
        found = self._certified(halves, guidance, lesson, tried, labels)
        keep_improvement(self.known.sets[0] if self.known.sets else LabelSet(self.store), found)
        if found.outcome == "better":
            self._keep_certificate(halves[CANDIDATE])
        return found

    def _guided(self, guidance: Guidance) -> Judging:
        """Return the judge with other guidance for this evaluator."""
        present, *others = self.judging.settings.judges
        kept = (each for each in present.guidance if each.evaluator != guidance.evaluator)
        judges = (present.model_copy(update={"guidance": (*kept, guidance)}), *others)
        return judging_by(self.held_out, judges, self.judging.settings, self.judging.job.params)

    def _certified(
        self, halves: dict[str, JudgedLabels], guidance: Guidance, lesson: Lesson, tried: int, labels: str
    ) -> Improvement:
        alpha = level_of_try(tried)
        calls = (call for each in halves.values() for verdict in each.verdicts for call in verdict.calls)
        comparison = compare_judges(halves, read_ledger(self.store).replies(calls), held_out=True, alpha=alpha)
        [pair], (present, candidate) = comparison.pairs, comparison.judges
        pairs = zip(halves[PRESENT].verdicts, halves[CANDIDATE].verdicts, strict=True)
        lost = sum(one.value is not None and other.value is None for one, other in pairs)
        return Improvement(
            question=self.known.question,
            judge=self.judge,
            proposer=self.proposer.model,
            guidance=guidance.model_dump(mode="json"),
            config=candidate.config,
            present_config=present.config,
            learned=lesson.compared,
            differing=lesson.differing,
            held_out=tuple(row.key for row in self.held_out.rows),
            labels=labels,
            tried=tried,
            alpha=alpha,
            rows=comparison.rows,
            present=agreement_figure(present),
            candidate=agreement_figure(candidate),
            effect=pair.effect,
            low=pair.low,
            high=pair.high,
            p=pair.p,
            lost=lost,
            outcome=outcome_of(comparison, PRESENT, CANDIDATE, lost),
            binary=comparison.binary,
            earned=now(),
        )

    def _keep_certificate(self, judged: JudgedLabels) -> None:
        """Certify the candidate by the held-out labels alone, if they are of rows drawn at random."""
        keys = {row.key for row in self.held_out.rows}
        labels = [label for label in self.known.labels if label.key in keys]
        report = report_labels(judged.judged_rows(), labels, self.known.samples, bootstrapped=False)
        found = certificate_of(judged.judging.metric, report, self.held_out.run, self.known.names, held_out=True)
        if found.is_earned and self.known.sets and self.known.samples:
            keep_certificate(self.known.sets[0], found)


def prepare_improving(
    store: Store, name: str, set_name: str | None, question: str, access: JudgeAccess, proposer: str | None = None
) -> Improving:
    """Return what improving a judge needs.

    Args:
        set_name: The only set of labels that counts; by default all together, with those of the store's datasets.
        question: ``EVALUATOR.METRIC`` or ``EVALUATOR``; ``""`` where people answered one question.
        access: What may be spent, and where judges are named.
        proposer: The model that proposes guidance, as ``--judge`` takes it; the judge itself by default.

    Raises:
        UsageError: There is no such judge, set or question, the judge is a jury, or there are too few labels.
    """
    known = known_labels(store, set_name, lambda: labels_of_datasets(store))
    labelled = find_labelled_rows(store, known, question)
    judging = judging_named(store, labelled, access.model_copy(update={"model": name}))
    judge = judging.settings.judges[0]
    if judge.key == UNNAMED or isinstance(judge, JuryConfig):
        raise UsageError(
            f"{name[:100]!r} is {'a jury' if isinstance(judge, JuryConfig) else 'no judge of leadline.toml'}.",
            hint="Name one of its judges."
            if isinstance(judge, JuryConfig)
            else "Guidance is written to [judges.NAME].",
            code=ErrorCode.JUDGE_CONFIG,
        )
    training, held_out = labelled.half(held_out=False), labelled.half(held_out=True)
    require_labels((training, held_out), binary=judging.metric.is_binary)
    chosen = judges_of(access.model_copy(update={"model": proposer or name}))[0]
    if isinstance(chosen, JuryConfig):
        raise UsageError(
            f"{chosen.key[:100]!r} is a jury, and writes no text.", hint="Name a judge.", code=ErrorCode.JUDGE_CONFIG
        )
    return Improving(store, known[labelled.question], training, held_out, judging, chosen, access)


def _require_asked(judged: JudgedLabels) -> None:
    """Refuse rows that a judge was not asked about: the half is looked at once, and whole.

    Raises:
        LeadlineError: The budget ended, or the judge did not answer.
    """
    missing = [why for why in judged.problems if why.startswith(("budget", "judge_unavailable"))]
    if missing:
        raise LeadlineError(
            f"{judged.problems[missing[0]]:,} labelled rows were not judged: {missing[0]}",
            hint="Nothing was certified; the same command asks only for what is missing.",
            code=ErrorCode.JUDGE_UNAVAILABLE,
        )
