"""Drawing rows of a run for people to label, in a queue of the workbench or in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.evaluators.ground import count
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps
from leadline.flows.shared.settings import StorePlace
from leadline.tasks.ground.files import handed_out
from leadline.tasks.judges.labels.label_sets import DEFAULT_SET, Drawing, LabelSet, make_sample
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.judged_rows import JudgedRows
    from leadline.tasks.judges.labels.labelling_tasks import Task


class SampleLabelsConfig(FormModel):
    """The run, what people are asked about its rows, and how rows are drawn."""

    run: Annotated[str, Option(metavar="RUN")] = Field(
        min_length=1, description="The run: its id, the beginning of it, latest, latest~1 or tag:NAME."
    )
    metric: Annotated[str | None, Option(metavar="NAME")] = Field(
        None, description="EVALUATOR for its primary metric, or EVALUATOR.METRIC."
    )
    question: Literal["right", "grounded"] | None = Field(
        None,
        description="Ask people the question itself, whatever metrics say: is this answer right, does it rest on its "
        "contexts?",
    )
    rows: Annotated[int, Option("-n", "--n")] = Field(100, ge=1, le=100_000, description="Rows to draw at most.")
    model: Annotated[str | None, Option(metavar="KEY")] = Field(
        None, max_length=1000, description="Only rows of this model."
    )
    how: Drawing = Field(
        "uniform",
        description="uniform: simple random sample; balanced: equal passes and failures; by-score: equal numbers per "
        "fifth.",
    )
    seed: int = Field(1, ge=0, le=2**31, description="Another draws other rows.")
    labels: Annotated[str, Option("--set", metavar="NAME")] = Field(
        DEFAULT_SET, title="Set", description="The set of labels."
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None,
        description="What people get: a page (.html), CSV, JSON Lines, or tasks for Label Studio (.json); without it a "
        "page, which opens in the browser.",
    )
    store: StorePlace = None

    @property
    def asked(self) -> str:
        """The metric, or the question that people are asked whatever metrics say."""
        return self.question or self.metric or ""

    @model_validator(mode="after")
    def _check_asked(self) -> SampleLabelsConfig:
        if (self.metric is None) == (self.question is None):
            raise ValueError("name either a metric or a question: right, for one, asks whether the answers are")
        return self


class SampleLabelsResult(BaseModel):
    """Rows that were drawn."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="Id of the run.")
    question: str = Field(description="EVALUATOR.METRIC, or the question that people are asked.")
    labels: str = Field(description="The set that has the sample.")
    rows: int = Field(description="Rows that were drawn.")
    of: str = Field(description="Rows that they were drawn from, in words.")
    more: str = Field("", description="Why they are more than were asked for, if they are.")
    file: str | None = Field(None, description="The file for people, if one was asked for.")


@dataclass(frozen=True, slots=True)
class Sampling:
    """Rows that can be drawn."""

    store: Store
    run: Run
    judged: JudgedRows


class SampleLabels(Job[SampleLabelsConfig, Sampling, JobSteps, SampleLabelsResult]):
    """Draw rows of a run at random for people to label."""

    name = "sample-labels"
    Config = SampleLabelsConfig

    def check(self, config: SampleLabelsConfig) -> Sampling:
        """Find the rows.

        Raises:
            UsageError: There is no such run or metric, or it has no values of rows.
        """
        from leadline.tasks.judges.labels.known_labels import rows_asked

        store = Store.open(config.store)
        run = find_run(store, config.run)
        judged = rows_asked(store, run, config.asked)
        return Sampling(store, run, judged.of_model(config.model) if config.model else judged)

    def run(self, config: SampleLabelsConfig, checked: Sampling, steps: JobSteps) -> SampleLabelsResult:
        """Draw rows, and give them to the set's queue, and to a file where one is named.

        Args:
            config: Which rows, and how many.
        """
        from leadline.tasks.judges.labels.drawing import draw
        from leadline.tasks.judges.labels.labelling_tasks import tasks_of, why_more

        store, run, judged = checked.store, checked.run, checked.judged
        drawn = steps.step("draw", draw, judged, config.rows, how=config.how, seed=config.seed)
        sample = make_sample(run, judged, drawn, how=config.how, seed=config.seed, model=config.model)
        if config.output:
            tasks = tasks_of(store, run, judged, [row.index for row in drawn], sample.id)
            hand_out(checked, tasks, config.output)
        labels_of = LabelSet(store, config.labels)
        labels_of.keep_sample(sample)
        scored = f"{count(len(judged.rows), 'row')} that {config.metric} scored"
        rows = f"{len(judged.rows):,}" if config.question else scored
        steps.log.info("%s of %s: the set %s", count(len(drawn), "answer"), rows, labels_of.name)
        return SampleLabelsResult(
            run=run.id,
            question=sample.question,
            labels=labels_of.name,
            rows=len(drawn),
            of=rows,
            more="" if config.question else why_more(judged, drawn, config.rows),
            file=config.output,
        )

    def asks(self, checked: Sampling) -> bool:
        """Return False: nobody is paid."""
        return False

    def run_name(self, config: SampleLabelsConfig) -> str:
        """Return what is asked, and the run."""
        return f"sample {config.asked} of {config.run}"

    def notes(self, result: SampleLabelsResult) -> Iterable[str]:
        """Yield what was drawn, and what to do with it."""
        where = result.file or f"the queue of {result.labels} in the workbench"
        yield f"{count(result.rows, 'answer')} of {result.of}: {where}"
        if result.more:
            yield result.more
        if result.file:
            yield f"Then: leadline labels import FILE --set {result.labels}"


def hand_out(found: Sampling, tasks: Sequence[Task], file: str) -> None:
    """Write rows for people to label, in the form that the file's ending says."""
    from leadline.tasks.judges.labels.labelling_tasks import criterion_of, written

    metric = found.judged.metric
    with handed_out(Path(file)) as temporary:
        text = written(tasks, metric, Path(file), criterion_of(found.store, found.run, metric))
        temporary.write_text(text, encoding="utf-8")
