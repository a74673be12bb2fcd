"""Generating: documents become a dataset of questions and answers."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import ErrorCode, ModelRef, UsageError, count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.models import weights
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import splitter_for
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps, output_file, report
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.settings import JudgeAccess, Models, StorePlace
from leadline.tasks.generate import Corpus, Cutting, Form, Generated, find_files, read_corpus
from leadline.tasks.generate import generate as ask_about
from leadline.tasks.ledger.ledger import new_name, open_ledger, read_ledger
from leadline.tasks.plan.cost import require_judge_price
from leadline.tasks.runs.run_sentences import paid
from leadline.tasks.store.store import Store

_NAMED: Final = 5
"""Warnings and chunks that were left out which a command names."""


class GenerateConfig(FormModel):
    """Documents, chunks, judge and budget of a generation."""

    documents: Annotated[tuple[str, ...], Option(metavar="DOCS…")] = Field(
        min_length=1, description="Files and folders: PDF, Markdown, HTML and plain text."
    )
    questions: int = Field(3, ge=1, le=50, description="Questions to ask for about each chunk.")
    chunk_size: int = Field(4000, ge=100, le=200_000, description="Longest chunk.")
    overlap: Annotated[int | None, Option(metavar="N")] = Field(
        None,
        ge=0,
        description="How much of a chunk the next one repeats, at most; at most a quarter of the chunk size. Default: "
        "a tenth of it.",
    )
    unit: Literal["characters", "tokens"] = Field("characters", description="What both count.")
    max_chunks: Annotated[int | None, Option(metavar="N")] = Field(
        None, ge=1, description="Ask about so many chunks, drawn by the seed. Default: all."
    )
    seed: int = Field(0, description="Which chunks are drawn.")
    judges: JudgeAccess = Field(JudgeAccess(), description="Who asks, and what it may cost.")
    models: Models = Field(
        Models(),
        description="Text handling, and the embedder by which questions that mean the same are found; without one they "
        "are compared by their words.",
    )
    similarity: float = Field(0.95, gt=0, le=1, description="Cosine from which on two questions mean the same.")
    encoding: Annotated[str | None, Option(metavar="NAME")] = Field(
        None, description="Encoding of text and HTML files. Default: what an HTML file says of itself, else UTF-8."
    )
    uri_prefix: Annotated[str, Option(metavar="TEXT")] = Field(
        "", max_length=500, description="Put before the documents' names in the dataset."
    )
    answers: bool = Field(
        True,
        description="Also write the expected answers as those of a model 'reference', so that the dataset itself can "
        "be evaluated.",
    )
    context: Annotated[bool, Option("--with-context")] = Field(
        False, description="Keep the chunk in the metadata of its cases."
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None, description="The dataset to write. Default: DOCUMENT.questions.jsonl here."
    )
    store: StorePlace = None

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return codecs.lookup(value).name
        except (LookupError, ValueError):
            raise ValueError(f"there is no encoding {value!r}") from None

    @model_validator(mode="after")
    def _fits_together(self) -> GenerateConfig:
        if self.overlap and 4 * self.overlap > self.chunk_size:
            raise ValueError(f"an overlap of {self.overlap} is more than a quarter of the chunk size {self.chunk_size}")
        return self


class GenerateResult(BaseModel):
    """Outcome of a generation."""

    model_config = ConfigDict(frozen=True)

    dataset: Path = Field(description="The dataset with the questions.")
    run: str = Field(description="Under which name the ledger has the calls.")
    documents: int = Field(description="Documents with text.")
    chunks: int = Field(description="Chunks asked about.")
    cases: int = Field(description="Cases written.")
    blank: int = Field(description="Questions and answers dropped because they were empty.")
    unanswerable: int = Field(description="Questions dropped because their chunk does not answer them.")
    repeated: int = Field(description="Questions dropped because another one asks the same.")
    failed: int = Field(description="Chunks left out because a call failed.")
    calls: int = Field(description="Calls made now that were answered.")
    reused: int = Field(description="Replies that the ledger had.")
    cost_usd: float = Field(description="What the calls made now cost, as far as their price is known.")
    unknown_price: int = Field(0, description="Calls made now whose price is not known.")
    seconds: float = Field(description="Seconds from the command, or from the call, to the end.")
    left_out: tuple[str, ...] = Field((), description="The first chunks that were left out, with why.")
    warnings: tuple[str, ...] = Field((), description="What is worth knowing of the documents.")


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that could begin.

    Attributes:
        embedder: The embedder by which questions are compared, if one is named.
    """

    output: Path
    settings: Settings
    limits: Limits
    embedder: ModelRef | None
    corpus: Corpus


class Generate(Job[GenerateConfig, Generation, JobSteps, GenerateResult]):
    """Make a dataset of questions and answers from documents."""

    name = "generate"
    Config = GenerateConfig
    first_step = "read"
    kept = "Interrupted. Replies are kept: the same command asks only for what is missing."

    def check(self, config: GenerateConfig) -> Generation:
        """Find the place of the dataset, the judge and the embedder, and read the documents.

        Raises:
            UsageError: No judge is named, money is limited and its price is unknown, there is nothing to ask about, or
                the dataset cannot be written.
            ModelUnavailable: The embedder's weights are not here and may not be fetched.
            DocumentsError: Files cannot be read; all are named.
        """
        output = output_of(config)
        settings = _settings(config)
        limits = limits_of(config.judges)
        require_judge_price(settings.judges[0], limits)
        embedder = weights.chosen(config.models.embedder, "embedder", settings) if config.models.embedder else None
        if embedder:
            weights.locate(embedder, settings)
        return Generation(output, settings, limits, embedder, corpus_of(config))

    def run(self, config: GenerateConfig, checked: Generation, steps: JobSteps) -> GenerateResult:
        """Generate a dataset.

        Args:
            config: Which documents, how they are cut, who is asked, and what it may cost.
        """
        started = time.monotonic()
        store = Store.open(config.store)
        name = new_name("generate")
        ctx = EvalContext(checked.settings, ledger=open_ledger(store, name, checked.limits))
        embedder = checked.embedder
        done: Generated = steps.step(
            "ask",
            ask_about,
            checked.corpus,
            ctx.judge_client(),
            checked.output,
            questions=config.questions,
            form=Form(answers=config.answers, context=config.context),
            embed=(lambda texts: ctx.embed(embedder, texts)) if embedder else None,
            similarity=config.similarity,
            progress=lambda finished, total: report("generate", "chunks", finished, total),
        )
        spent = read_ledger(store).total(name)
        steps.log.info("%d cases from %d chunks, %d calls", done.cases, done.chunks, spent.answered)
        for line in done.left_out:
            steps.log.warning("Left out: %s", line)
        return GenerateResult(
            dataset=checked.output.absolute(),
            run=name,
            documents=done.documents,
            chunks=done.chunks,
            cases=done.cases,
            blank=done.blank,
            unanswerable=done.unanswerable,
            repeated=done.repeated,
            failed=done.failed,
            calls=spent.answered,
            reused=max(0, done.replies - spent.answered),
            cost_usd=spent.cost_usd,
            unknown_price=spent.unknown_price,
            seconds=round(time.monotonic() - started, 2),
            left_out=tuple(done.left_out),
            warnings=checked.corpus.warnings,
        )

    def lines(self, result: GenerateResult) -> Iterable[tuple[str, str]]:
        """Yield what was generated."""
        price = paid(result.cost_usd, result.calls, result.unknown_price)
        made = f"{result.calls:,} made{f', {price}' if result.calls else ''}"
        why = {"repeated": result.repeated, "not answered by their chunk": result.unanswerable, "empty": result.blank}
        dropped = ", ".join(f"{number:,} {reason}" for reason, number in why.items() if number)
        yield "Documents", f"{result.documents:,}; {count(result.chunks, 'chunk')}"
        yield "Cases", f"{result.cases:,}{f'; dropped: {dropped}' if dropped else ''}"
        yield "Calls", f"{made}; {count(result.reused, 'reply', 'replies')} reused; {result.seconds:.1f} s"
        if result.failed:
            yield "Left out", count(result.failed, "chunk")
        yield "Dataset", str(result.dataset)

    def notes(self, result: GenerateResult) -> Iterable[str]:
        """Yield what is to be known of the documents, and what failed."""
        yield from first_warnings(result.warnings)
        for line in result.left_out[:_NAMED]:
            yield f"Left out: {line}"
        if result.failed > _NAMED:
            yield f"and {count(result.failed - _NAMED, 'more chunk')}."
        if result.failed:
            yield "The same command asks again for what failed."


def first_warnings(warnings: tuple[str, ...]) -> Iterable[str]:
    """Yield the first warnings, and how many more there are."""
    for warning in warnings[:_NAMED]:
        yield f"Warning: {warning}"
    if len(warnings) > _NAMED:
        yield f"and {count(len(warnings) - _NAMED, 'more warning')}."


def output_of(config: GenerateConfig) -> Path:
    """Return where the dataset is written.

    Raises:
        UsageError: There is a folder, or one of the documents.
    """
    first = Path(config.documents[0])
    name = first.stem or first.absolute().name or "documents"
    return output_file(config.output, f"{name}.questions.jsonl", sources=config.documents)


def corpus_of(config: GenerateConfig) -> Corpus:
    """Read and cut the documents.

    Raises:
        DocumentsError: Files cannot be read; all are named.
        UsageError: There is nothing to ask about.
    """
    overlap = config.chunk_size // 10 if config.overlap is None else config.overlap
    return read_corpus(
        find_files(config.documents, config.uri_prefix),
        Cutting(config.chunk_size, overlap, config.unit),
        splitter_for(config.models.language, config.models.splitter),
        encoding=config.encoding,
        most=config.max_chunks,
        seed=config.seed,
    )


def _settings(config: GenerateConfig) -> Settings:
    """Return who is asked, and how texts are handled."""
    judges = judges_of(config.judges)
    if not judges:
        raise UsageError(
            "Generating questions needs a judge, and none is named.",
            hint="Name a judge: --judge MODEL, or set LEADLINE_JUDGE.",
            code=ErrorCode.PLAN_NEEDS_JUDGE,
        )
    return Settings(**config.models.model_dump(), judges=judges)
