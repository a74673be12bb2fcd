"""Improving a judge by people's labels: guidance from one half of the cases, certified on the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count
from leadline.evaluators.settings import UNNAMED, Guidance, JudgeConfig, JuryConfig
from leadline.flows.certify_judges import judging_named
from leadline.flows.prefect.outside_requests import Allowed, check_judges
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps, report
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.settings import JudgeAccess, NoCredentials, StorePlace
from leadline.tasks.ground.numbers import money
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


class ImproveJudgeConfig(FormModel):
    """The judge to improve, the labels that tell how people judge, and what it may cost."""

    proposer: Annotated[str | None, NoCredentials, Option("--by", metavar="MODEL")] = Field(
        None, max_length=500, description="Judge or model that proposes guidance. Default: the judge."
    )
    labels: Annotated[str | None, Option(metavar="SET")] = Field(
        None, description="The only set of labels that counts. Default: all, with those of datasets."
    )
    metric: Annotated[str, Option(metavar="NAME")] = Field(
        "", description="EVALUATOR or EVALUATOR.METRIC that people labelled. Default: the only one."
    )
    judges: JudgeAccess = Field(JudgeAccess(), description="The judge of leadline.toml, and what it may cost.")
    store: StorePlace = None


class ImproveJudgeResult(BaseModel):
    """Outcome of improving a judge."""

    model_config = ConfigDict(frozen=True)

    improvement: Improvement = Field(description="The candidate, and what the held-out half says of it.")

    @property
    def is_better(self) -> bool:
        """True where the candidate may be adopted."""
        return self.improvement.outcome == "better"


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

    def improved(self, steps: JobSteps) -> Improvement:
        """Ask for guidance, certify it, keep what came of it beside the labels, and return that.

        The same candidate on the same labels is certified once: later calls return what is kept.

        Raises:
            UsageError: Judge and people differ nowhere, or money is limited and a price is unknown.
            LeadlineError: A judge or the model did not answer, or the budget ended first.
        """
        limits, occasion = limits_of(self.access), new_occasion()
        require_judge_price(self.proposer, limits)

        def judged(what: str, rows: LabelledRows, judging: Judging) -> JudgedLabels:
            report("judge", what, 0, len(rows.rows))
            found = steps.step(
                f"judge {what}", judge_labelled_rows, self.store, rows, judging, limits=limits, occasion=occasion
            )
            _require_asked(found)
            report("judge", what, len(rows.rows), len(rows.rows))
            return found

        lesson = lesson_of(self.store, judged("rows to learn from", self.training, self.judging))
        guidance = steps.step(
            "propose", propose, self.store, self.judging, self.proposer, lesson, limits=limits, occasion=occasion
        )
        guided = self._guided(guidance)
        earlier = kept_improvements(self.store, self.known.question)
        binary = self.judging.metric.is_binary
        labels, keys = labels_digest(self.held_out, binary=binary), {row.key for row in self.held_out.rows}
        same = (guided.job.config, self.judging.job.config, labels)
        for kept in earlier:
            if (kept.config, kept.present_config, kept.labels) == same:
                return replace(kept, judge=self.judge)
        tried = 1 + sum(not keys.isdisjoint(kept.held_out) for kept in earlier)
        halves = {
            PRESENT: judged("held-out rows", self.held_out, self.judging),
            CANDIDATE: judged("held-out rows with guidance", self.held_out, guided),
        }
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


class ImproveJudge(Job[ImproveJudgeConfig, Improving, JobSteps, ImproveJudgeResult]):
    """Add guidance from people's labels to a judge's prompts, and certify it on labels that it was not made of."""

    name = "improve-judge"
    Config = ImproveJudgeConfig
    kept = "Interrupted. Verdicts are kept: the same command asks only for what is missing."

    def check(self, config: ImproveJudgeConfig) -> Improving:
        """Find the judge, the labels and who proposes.

        Raises:
            UsageError: There is no such judge, set or question, the judge is a jury, or there are too few labels.
        """
        store = Store.open(config.store)
        known = known_labels(store, config.labels, lambda: labels_of_datasets(store))
        labelled = find_labelled_rows(store, known, config.metric)
        judging = judging_named(store, labelled, config.judges)
        judge = judging.settings.judges[0]
        if judge.key == UNNAMED or isinstance(judge, JuryConfig):
            named = f"{(config.judges.model or judge.key)[:100]!r}"
            raise UsageError(
                f"{named} is {'a jury' if isinstance(judge, JuryConfig) else 'no judge of leadline.toml'}.",
                hint="Name one of its judges."
                if isinstance(judge, JuryConfig)
                else "Guidance is written to [judges.NAME].",
                code=ErrorCode.JUDGE_CONFIG,
            )
        training, held_out = labelled.half(held_out=False), labelled.half(held_out=True)
        require_labels((training, held_out), binary=judging.metric.is_binary)
        chosen = judges_of(_proposing(config))[0]
        if isinstance(chosen, JuryConfig):
            raise UsageError(
                f"{chosen.key[:100]!r} is a jury, and writes no text.",
                hint="Name a judge.",
                code=ErrorCode.JUDGE_CONFIG,
            )
        return Improving(store, known[labelled.question], training, held_out, judging, chosen, config.judges)

    def notices(self, checked: Improving) -> Iterable[str]:
        """Yield what each judge has to answer, and what that costs."""
        needs, price = checked.needs()
        for name, need in needs.items():
            yield f"{name}: {need.in_words}"
        about = "price unknown" if price is None else f"about {money(price)}"
        yield f"{checked.proposer.model} proposes guidance: 1 call, {about}."

    def run(self, config: ImproveJudgeConfig, checked: Improving, steps: JobSteps) -> ImproveJudgeResult:
        """Have guidance proposed from labels, and judge the held-out rows with it.

        Args:
            config: Judge, labels and budget.
        """
        found = checked.improved(steps)
        steps.log.info("Candidate %d on this held-out half. %s", found.tried, found.sentence)
        return ImproveJudgeResult(improvement=found)

    def check_outside(self, config: ImproveJudgeConfig, rules: Allowed) -> None:
        """Refuse a proposer that requests from outside may not name."""
        check_judges(rules, _proposing(config))

    def run_name(self, config: ImproveJudgeConfig) -> str:
        """Return the judge and the set of labels."""
        return f"improve {config.judges.model or 'the judge'} by {config.labels or 'all labels'}"

    def notes(self, result: ImproveJudgeResult) -> Iterable[str]:
        """Yield what the candidate came to."""
        found = result.improvement
        yield f"Learned from {count(found.learned, 'row')}; on {found.differing:,} judge and people differ."
        yield f"Candidate {found.tried} on this held-out half. {found.sentence}"
        if result.is_better:
            yield "Write this into leadline.toml, in place of what is there under these names:"
        else:
            yield "Keep what you have."

    def record(self, result: ImproveJudgeResult) -> dict[str, Any]:
        """Return the candidate with its guidance for ``leadline.toml``, ``""`` unless it is better."""
        return asdict(result.improvement) | {"toml": result.improvement.toml if result.is_better else ""}


def _proposing(config: ImproveJudgeConfig) -> JudgeAccess:
    """Return how the proposer is named: as a judge is."""
    return config.judges.model_copy(update={"model": config.proposer}) if config.proposer else config.judges


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
