"""Comparing: two runs, models or versions, case by case, and whether the new one is worse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.evaluators.ground import ErrorCode, UsageError, rounded
from leadline.flows.prefect.report_links import comparison_link
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps, report
from leadline.flows.shared.settings import Gate, PolicyName, StorePlace
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison


class CompareConfig(FormModel):
    """Baseline, candidate, margins and metrics of a comparison."""

    baseline: Annotated[str, Option(metavar="A")] = Field(
        "",
        description="What was there before: a run (its id, the beginning of it, latest, latest~1, tag:NAME), or one "
        "of its models as RUN:MODEL. Not given where versions are named.",
    )
    candidate: str = Field(
        "latest", description="What is new, named in the same way; :MODEL is a model of the baseline's run."
    )
    model: Annotated[str | None, Option(metavar="KEY")] = Field(
        None, description="With versions: the model, by key or name, whose versions are compared."
    )
    versions: Annotated[tuple[str, ...], Option(metavar="OLD NEW")] = Field(
        (), max_length=2, description="Two versions of the model, the older first; their youngest runs are compared."
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How much worse the candidate may be, as a share of each metric's range (of the baseline's value "
        "where the range has no end).",
    )
    margins: Annotated[dict[str, float], Option("--margin", metavar="METRIC=VALUE")] = Field(
        {}, description="Margins of single metrics (EVALUATOR.METRIC, or EVALUATOR for all of it) in their own unit."
    )
    metrics: Annotated[tuple[str, ...], Option("-m", "--metric", metavar="METRIC")] = Field(
        (),
        description="Test these metrics, as EVALUATOR.METRIC or EVALUATOR. Default: those that the policy says must or "
        "should hold, without those that look like another.",
    )
    all_metrics: bool = Field(False, description="Test every metric, whatever the policy says of it.")
    slices: Annotated[tuple[str, ...], Option("--slice", metavar="COLUMN", advanced=True)] = Field(
        (),
        description="Columns by whose values the tested metrics are compared too, for information: category, language, "
        "question_length, perturbation, retrieval or a key of the metadata, as far as both runs have slices by them.",
    )
    policy: Annotated[
        PolicyName,
        Field(
            description="Policy that says which metrics are tested: default, sonar, strict, "
            "or a TOML file. Default: that of the candidate's run."
        ),
    ] = None
    model_map: Annotated[dict[str, str], Option("--map", metavar="OLD=NEW", advanced=True)] = Field(
        {}, description="Models of the baseline, each with the candidate's that it is compared with, where keys differ."
    )
    allow_different_configurations: Annotated[bool, Option(advanced=True)] = Field(
        False, description="Compare also what was measured in different ways, such as by another judge."
    )
    alpha: Annotated[float, Option(advanced=True)] = Field(
        0.05, gt=0, le=0.5, description="Declared chance that any metric fails although nothing became worse."
    )
    shown: Annotated[int, Option(advanced=True)] = Field(
        10,
        ge=0,
        le=200,
        description="Flips of each metric and direction that the report shows with question and answers.",
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="DIR")] = Field(
        None, description="Copy the files to this folder."
    )
    store: StorePlace = None

    @field_validator("margins")
    @classmethod
    def _check_margins(cls, value: dict[str, float]) -> dict[str, float]:
        wrong = [name for name, margin in value.items() if not 0 <= margin < float("inf")]
        if wrong:
            raise ValueError(f"the margin of {wrong[0]} is not 0 or more")
        return value

    @model_validator(mode="after")
    def _check_sides(self) -> CompareConfig:
        if self.versions:
            if len(self.versions) != 2 or not self.model:
                raise ValueError("versions need a model and are two: the older, then the newer one")
            if self.baseline:
                raise ValueError("name a baseline or versions, not both")
        elif not self.baseline:
            raise ValueError("name a baseline, or a model and two versions of it")
        elif self.model:
            raise ValueError("model goes with versions; else write RUN:MODEL")
        return self


class CompareResult(BaseModel):
    """Outcome of a comparison."""

    model_config = ConfigDict(frozen=True)

    comparison: str = Field(description="Id of the comparison: its folder below comparisons/ in the store.")
    baseline: str = Field(description="Id of the baseline's run.")
    candidate: str = Field(description="Id of the candidate's run.")
    verdict: Gate = Field(description="Whether the candidate is worse by more than the margins.")
    reason: str = Field(description="One sentence that says why.")
    metrics: dict[str, int] = Field(description="Number of metrics by verdict.")
    folder: Path = Field(description="Folder of the files.")
    report: Path = Field(description="The report, as HTML.")


@dataclass(frozen=True, slots=True)
class Sides:
    """A comparison that could begin."""

    store: Store
    compared: Callable[[], Comparison]


class Compare(Job[CompareConfig, Sides, JobSteps, CompareResult]):
    """Compare two runs, models or versions row by row, and say whether the new one is worse."""

    name = "compare"
    Config = CompareConfig

    def check(self, config: CompareConfig) -> Sides:
        """Find both sides.

        Raises:
            UsageError: There is no such run, model, version or policy, or both sides are the same.
            StoreError: The store cannot be read.
        """
        # A command's help needs no statistics.
        from leadline.tasks.compare import Margins, Options, compare
        from leadline.tasks.compare.options import find, find_versions

        store = Store.open(config.store)
        if config.versions:
            baseline, candidate = find_versions(store, str(config.model), (config.versions[0], config.versions[1]))
        else:
            baseline = find(store, config.baseline)
            candidate = find(store, config.candidate, beside=baseline)
        if baseline == candidate:
            raise UsageError(
                f"Both sides are run {baseline.run.id}.",
                hint="Name another run, or two models of this one.",
                code=ErrorCode.COMPARE_SIDES,
            )
        options = Options(
            margins=Margins(config.margin, config.margins),
            alpha=config.alpha,
            metrics=config.metrics,
            all_metrics=config.all_metrics,
            policy=load_policy(config.policy) if config.policy else None,
            slices=tuple(dict.fromkeys(config.slices)),
            mapping=config.model_map,
            allow_different_configurations=config.allow_different_configurations,
            shown=config.shown,
            output=Path(config.output) if config.output else None,
        )
        return Sides(store, partial(compare, store, baseline, candidate, options))

    def run(self, config: CompareConfig, checked: Sides, steps: JobSteps) -> CompareResult:
        """Compare a candidate with a baseline.

        Args:
            config: Who is compared with whom, how much worse the candidate may be, and what is compared.
        """
        report("compare", done=0)
        found = steps.step("compare", checked.compared)
        report("compare", done=1)
        _show(checked.store, found, steps)
        verdicts = [metric.verdict for metric in found.metrics]
        return CompareResult(
            comparison=found.id,
            baseline=found.baseline.run,
            candidate=found.candidate.run,
            verdict=found.verdict,
            reason=found.reason,
            metrics={str(verdict): verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)},
            folder=found.folder,
            report=found.report,
        )

    def run_name(self, config: CompareConfig) -> str:
        """Return the name of a run, which has those of both sides."""
        sides = config.versions or (config.baseline, config.candidate)
        return f"compare {config.model or ''} {sides[-1]} with {sides[0]}".replace("  ", " ")


def _show(store: Store, found: Comparison, steps: JobSteps) -> None:
    """Show what came out, each metric, and the link to the report."""
    link = comparison_link(store, found.id, found.report)
    shown = f"<{link}>" if link.startswith("http") else f"`{found.report}`"
    summary = f"# {found.verdict.upper()}\n\n{found.reason}\n\nReport: {shown}"
    steps.show("leadline-comparison", summary, f"Comparison {found.id}")
    lines = [
        {
            "metric": metric.metric.key,
            "models": metric.models.label,
            "baseline": rounded(metric.baseline),
            "candidate": rounded(metric.candidate),
            "effect": rounded(metric.effect),
            "interval low": rounded(metric.ci_low),
            "interval high": rounded(metric.ci_high),
            "margin": rounded(metric.margin),
            "verdict": metric.verdict,
            "reason": metric.reason,
        }
        for metric in found.metrics
    ]
    steps.table("leadline-compared-metrics", lines, "Metrics, what needs attention first")
    steps.link("leadline-comparison-report", link, "Report", found.id)
