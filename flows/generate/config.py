"""Settings and result of generating a dataset from documents."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import JudgeAccess, Models, StorePlace


class GenerateConfig(FormModel):
    """Documents, chunks, judge and budget of a generation."""

    documents: Annotated[tuple[str, ...], Option(metavar="DOCS…")] = Field(
        min_length=1,
        description="Files and folders: PDF, Markdown, HTML and plain text.",
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
        None,
        ge=1,
        description="Ask about so many chunks, drawn by the seed. Default: all.",
    )
    seed: int = Field(0, description="Which chunks are drawn.")
    judges: JudgeAccess = Field(JudgeAccess(), description="Who asks, and what it may cost.")
    models: Models = Field(
        Models(),
        description="Text handling, and the embedder by which questions that mean the same are found; without one they "
        "are compared by their words.",
    )
    similarity: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Cosine from which on two questions mean the same.",
    )
    encoding: Annotated[str | None, Option(metavar="NAME")] = Field(
        None,
        description="Encoding of text and HTML files. Default: what an HTML file says of itself, else UTF-8.",
    )
    uri_prefix: Annotated[str, Option(metavar="TEXT")] = Field(
        "",
        max_length=500,
        description="Put before the documents' names in the dataset.",
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
        None,
        description="The dataset to write. Default: DOCUMENT.questions.jsonl here.",
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
