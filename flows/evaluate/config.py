"""Settings and result of an evaluation.

The same model is the form in the Prefect UI, the parameters of a deployment, and the source of the command's options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.option_group import OptionGroup
from leadline.flows.shared.settings import (
    AskedQuestions,
    ColumnMapping,
    Dispatch,
    Dispatching,
    EvaluatorFiles,
    EvaluatorIds,
    EvaluatorParams,
    EvaluatorsDir,
    EvaluatorSuite,
    FailOn,
    FailOnSeverity,
    FormatName,
    Gate,
    GateOn,
    Judges,
    LabelSetName,
    MinCoverage,
    ModelNaming,
    Models,
    NoCredentials,
    PolicyName,
    Processes,
    StorePlace,
)
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.plan.trial_rows import AUTO
from leadline.tasks.runs.run_facts import Answer


class EvaluateConfig(FormModel):
    """Dataset, evaluators and gate of an evaluation."""

    dataset: Annotated[str, NoCredentials, Option(metavar="DATASET")] = Field(
        min_length=1, description="File with the cases and the models' answers."
    )
    evaluators: EvaluatorIds = ()
    suite: EvaluatorSuite = None
    evaluators_dir: EvaluatorsDir = None
    evaluator_files: EvaluatorFiles = ()
    params: EvaluatorParams = Field({})
    model_keys: Annotated[tuple[str, ...], Option("--model", metavar="KEY", group=OptionGroup.MEASURED)] = Field(
        (), description="Only these models of the dataset. Default: all."
    )
    slices: Annotated[
        tuple[str, ...], Option("--slice", metavar="COLUMN", group=OptionGroup.MEASURED, advanced=True)
    ] = Field(
        (),
        description="Columns whose values are looked at one by one: category, language, question_length, perturbation, "
        "retrieval, a key of the metadata, or none. Default: those that suit.",
    )
    format: FormatName = Field("auto", title="Format", description="How the file is read.")
    map: ColumnMapping = Field({})
    model_name: ModelNaming = ""
    corpus: Annotated[
        str | None, NoCredentials, Option("--corpus", metavar="FILE", group=OptionGroup.DATA, advanced=True)
    ] = Field(None, description="File with the texts of documents, by the ids that retrievals recorded. Default: none.")
    judges: Judges = Field(Judges(), description="Who judges, and what it may cost.")
    models: Models = Field(Models(), description="Local models and text handling.")
    fail_on: FailOnSeverity = FailOn.NEVER
    policy: PolicyName = None
    ask: AskedQuestions = ()
    min_coverage: MinCoverage = None
    against: Annotated[
        str | None, NoCredentials, Option(metavar="previous|tag:NAME|RUN|none", group=OptionGroup.GATE)
    ] = Field(
        None,
        description="Earlier run to compare with, so that the report says what is newly broken and newly fixed. "
        "Default: the run tagged production, if it has cases of this dataset, else the last run of a dataset of this "
        "name.",
    )
    stop_when: Annotated[Literal["never", "decided"], Option(group=OptionGroup.GATE, advanced=True)] = Field(
        "never",
        title="Stop when",
        description="Stop judging once the rest could hardly change the gate (with --fail-on) or the comparison (with "
        "--against): decided. Cases are then judged in waves, in an order drawn at random.",
    )
    attribute_flips: Annotated[bool, Option("--attribute-flips", group=OptionGroup.JUDGES, advanced=True)] = Field(
        False,
        title="Attribute flips",
        description="Tell how much of the flips is the model's, whose answer changed, and how much the judge's, who "
        "reads the changed question otherwise: answers to copies are judged under their original's question, too. "
        "Needs --trials 2 --trial-rows auto.",
    )
    labels: LabelSetName = None
    gate_on: GateOn = "policy"
    dispatch: Dispatching = Dispatch.AUTO
    processes: Processes = None
    name: Annotated[str, Option(metavar="TEXT", group=OptionGroup.OUTPUT)] = Field(
        "", max_length=200, description="A name for the run."
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="DIR", group=OptionGroup.OUTPUT)] = Field(
        None, description="Copy the results to this folder."
    )
    results: Annotated[Literal["auto", "sonar"], Option(group=OptionGroup.OUTPUT, rare=True)] = Field(
        "auto",
        title="Results",
        description="Files of all rows beside the report: scores and flips as CSV, for runs of up to 2,000 row scores "
        "in a store that is a folder (auto), or always, with a folder per evaluator in the layout of H2O Eval Studio "
        "(sonar).",
    )
    store: StorePlace = None

    @model_validator(mode="after")
    def _attribution_needs_pairs(self) -> Self:
        if self.attribute_flips and self.judges.trial_rows != AUTO:
            raise ValueError("attribute_flips needs --trials 2 --trial-rows auto (trial_rows = auto)")
        return self


class EvaluateResult(BaseModel):
    """Outcome of an evaluation."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="Id of the run.")
    folder: Path = Field(description="Folder of the run.")
    report: Path = Field(description="The report, as HTML.")
    report_url: str = Field("", description="The report's address in the store's bucket, if it has one.")
    gate: Gate = Field(description="Whether the run is good enough for what was asked.")
    gate_reason: str = Field(description="One sentence that says why.")
    questions: tuple[Answer, ...] = Field((), description="What the run answers to each question, in their order.")
    gate_counted: str = Field("", description="What the gate counted, in a few words.")
    stopping: str = Field("", description="What was decided before all cases were judged, and what that saved.")
    changed: str = Field("", description="What changed since the earlier run that it was compared with.")
    worst: list[str] = Field(default_factory=list, description="The worst problems, each in a sentence.")
    recommendation: str = Field("", description="Which model to choose.")
    problems: dict[str, int] = Field(description="Number of problems by severity, of models and of the instrument.")
    problems_by_fault: dict[str, dict[str, int]] = Field(
        description="The same apart: `model`, and `instrument` (the instrument or the data is at fault)."
    )
    scored: int = Field(description="Scores with a value, metrics of rows counted singly.")
    unscored: int = Field(description="Scores that could not be measured.")
    not_applicable: int = Field(description="Scores whose row lacks an input.")
    reused: int = Field(description="Row scores taken from the store.")
    computed: int = Field(description="Row scores computed in this run.")
    time: RunTime = Field(description="Where the time went, in seconds, from the command to the end.")
    embedder: str = Field("", description="The embedder that was used, and why that one.")
    judge_calls: int = Field(0, description="Judge calls made in this run.")
    judge_cost_usd: float = Field(0.0, description="What they cost, as far as their price is known.")
    judge_unknown_price: int = Field(0, description="Judge calls whose price is not known.")
    judge_made_again: int = Field(
        0, description="Judge calls made again because an earlier process was killed before their replies came."
    )
