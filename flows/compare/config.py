"""What a comparison is asked to do: the parameters of the flow ``compare``, which the command line fills in too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.flows.evaluate.config import Gate, StorePlace

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison


class CompareConfig(BaseModel):
    """Who is compared with whom, how much worse the candidate may be, and what is compared."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    baseline: str = Field(
        "",
        description="What was there before: a run (its id, the beginning of it, latest, latest~1, tag:NAME), or one "
        "of its models as RUN:MODEL. Empty where versions are named.",
        json_schema_extra={"position": 0},
    )
    candidate: str = Field(
        "latest",
        description="What is new, named in the same way; :MODEL is a model of the baseline's run.",
        json_schema_extra={"position": 1},
    )
    model: str | None = Field(
        None,
        description="With versions: the model, by key or name, whose versions are compared.",
        json_schema_extra={"position": 2},
    )
    versions: tuple[str, ...] = Field(
        (),
        max_length=2,
        description="Two versions of the model, the older first; their youngest runs are compared.",
        json_schema_extra={"position": 3},
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How much worse the candidate may be, as a share of each metric's range (of the baseline's value "
        "where the range has no end).",
        json_schema_extra={"position": 4},
    )
    margins: dict[str, float] = Field(
        {},
        description="Margins of single metrics (EVALUATOR.METRIC, or EVALUATOR for all of it) in their own unit.",
        json_schema_extra={"position": 5},
    )
    metrics: tuple[str, ...] = Field(
        (),
        description="Only these metrics, as EVALUATOR.METRIC or EVALUATOR; empty: the primary ones.",
        json_schema_extra={"position": 6},
    )
    all_metrics: bool = Field(
        False, description="Every metric, not just the primary ones.", json_schema_extra={"position": 7}
    )
    model_map: dict[str, str] = Field(
        {},
        description="Models of the baseline, each with the candidate's that it is compared with, where keys differ.",
        json_schema_extra={"position": 8},
    )
    allow_different_configurations: bool = Field(
        False,
        description="Compare also what was measured in different ways, such as by another judge.",
        json_schema_extra={"position": 9},
    )
    alpha: float = Field(
        0.05,
        gt=0,
        le=0.5,
        description="Declared chance that any metric fails although nothing became worse.",
        json_schema_extra={"position": 10},
    )
    shown: int = Field(
        10,
        ge=0,
        le=200,
        description="Flips of each metric and direction that the report shows with question and answers.",
        json_schema_extra={"position": 11},
    )
    output: str | None = Field(None, description="Copy the files to this folder.", json_schema_extra={"position": 12})
    store: StorePlace = Field(
        None, description="The store; empty: $LEADLINE_STORE or ./.leadline.", json_schema_extra={"position": 13}
    )

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
    """How a comparison ended."""

    model_config = ConfigDict(frozen=True)

    comparison: str = Field(description="Id of the comparison: its folder below comparisons/ in the store.")
    baseline: str = Field(description="Id of the baseline's run.")
    candidate: str = Field(description="Id of the candidate's run.")
    verdict: Gate = Field(description="Whether the candidate is worse by more than the margins.")
    reason: str = Field(description="One sentence that says why.")
    metrics: dict[str, int] = Field(description="Number of metrics by verdict.")
    folder: Path = Field(description="Folder of the files.")
    report: Path = Field(description="The report, as HTML.")


def run_comparison(config: CompareConfig) -> Comparison:
    """Compare as a configuration says, in this process and without Prefect.

    Raises:
        UsageError: There is no such run, model, version or metric, or both sides are the same.
        StoreError: The store cannot be read or written.
    """
    from leadline.tasks.compare import Options, compare
    from leadline.tasks.compare.margins import Margins
    from leadline.tasks.compare.sides import find, find_versions
    from leadline.tasks.store.store import Store

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
        mapping=config.model_map,
        allow_different_configurations=config.allow_different_configurations,
        shown=config.shown,
        output=Path(config.output) if config.output else None,
    )
    return compare(store, baseline, candidate, options)


def result_of(comparison: Comparison) -> CompareResult:
    """Return what the flow tells of a comparison."""
    verdicts = [found.verdict for found in comparison.metrics]
    return CompareResult(
        comparison=comparison.id,
        baseline=comparison.baseline.run,
        candidate=comparison.candidate.run,
        verdict=comparison.verdict,
        reason=comparison.reason,
        metrics={str(verdict): verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)},
        folder=comparison.folder,
        report=comparison.report,
    )
