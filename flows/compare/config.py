"""Settings and result of a comparison, which the command line uses too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import Gate, PolicyName, StorePlace


class CompareConfig(FormModel):
    """Baseline, candidate, margins and metrics of a comparison."""

    baseline: Annotated[str, Option(metavar="A")] = Field(
        "",
        description="What was there before: a run (its id, the beginning of it, latest, latest~1, tag:NAME), or one "
        "of its models as RUN:MODEL. Not given where versions are named.",
    )
    candidate: str = Field(
        "latest",
        description="What is new, named in the same way; :MODEL is a model of the baseline's run.",
    )
    model: Annotated[str | None, Option(metavar="KEY")] = Field(
        None,
        description="With versions: the model, by key or name, whose versions are compared.",
    )
    versions: Annotated[tuple[str, ...], Option(metavar="OLD NEW")] = Field(
        (),
        max_length=2,
        description="Two versions of the model, the older first; their youngest runs are compared.",
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How much worse the candidate may be, as a share of each metric's range (of the baseline's value "
        "where the range has no end).",
    )
    margins: Annotated[dict[str, float], Option("--margin", metavar="METRIC=VALUE")] = Field(
        {},
        description="Margins of single metrics (EVALUATOR.METRIC, or EVALUATOR for all of it) in their own unit.",
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
        {},
        description="Models of the baseline, each with the candidate's that it is compared with, where keys differ.",
    )
    allow_different_configurations: Annotated[bool, Option(advanced=True)] = Field(
        False,
        description="Compare also what was measured in different ways, such as by another judge.",
    )
    alpha: Annotated[float, Option(advanced=True)] = Field(
        0.05,
        gt=0,
        le=0.5,
        description="Declared chance that any metric fails although nothing became worse.",
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
