"""Documents, judge and output of generating, without Prefect, so that a command can check them early."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.settings.settings import Settings
from leadline.evaluators.text.sentences import splitter_for
from leadline.flows.generate.config import GenerateConfig
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.output_files import output_file
from leadline.tasks.generate import Corpus, Cutting, find_files, read_corpus
from leadline.tasks.plan.prices import require_judge_price

if TYPE_CHECKING:
    from leadline.tasks.generate.dataset_rows import Embed


def output_of(config: GenerateConfig) -> Path:
    """Return where the dataset is written.

    Raises:
        UsageError: There is a folder, or one of the documents.
    """
    first = Path(config.documents[0])
    name = first.stem or first.absolute().name or "documents"
    return output_file(config.output, f"{name}.questions.jsonl", sources=config.documents)


def settings_of(config: GenerateConfig) -> Settings:
    """Return who is asked, and how texts are handled.

    Raises:
        UsageError: Nobody is named, or money is limited and the judge's price is unknown.
    """
    judges = judges_of(config.judges)
    if not judges:
        raise UsageError(
            "Generating questions needs a judge, and none is named.",
            hint="Name a judge: --judge MODEL, or set LEADLINE_JUDGE.",
            code=ErrorCode.PLAN_NEEDS_JUDGE,
        )
    require_judge_price(judges[0], limits_of(config.judges))
    return Settings(**config.models.model_dump(), judges=judges)


def corpus_of(config: GenerateConfig) -> Corpus:
    """Read and cut the documents; the last ones read are remembered, so that a check before the flow costs nothing.

    Raises:
        DocumentsError: Files cannot be read; all are named.
        UsageError: There is nothing to ask about.
    """
    found = find_files(config.documents, config.uri_prefix)
    stamps = tuple((str(file.path), file.size, file.changed) for file in found.files)
    return _read(config.model_copy(update={"output": None, "judges": type(config.judges)()}), stamps)


@lru_cache(maxsize=1)
def _read(config: GenerateConfig, stamps: tuple[tuple[str, int, int], ...]) -> Corpus:
    overlap = config.chunk_size // 10 if config.overlap is None else config.overlap
    return read_corpus(
        find_files(config.documents, config.uri_prefix),
        Cutting(config.chunk_size, overlap, config.unit),
        splitter_for(config.models.language, config.models.splitter),
        encoding=config.encoding,
        most=config.max_chunks,
        seed=config.seed,
    )


def embed_of(config: GenerateConfig, ctx: EvalContext) -> Embed | None:
    """Return what embeds questions, ``None`` where no embedder is named.

    Args:
        config: The run's configuration, which may name an embedder.
        ctx: Its settings locate the weights; it computes the vectors.

    Raises:
        ModelUnavailable: Its weights are not here and may not be fetched.
    """
    from leadline.evaluators.models import weights

    if not config.models.embedder:
        return None
    ref = weights.chosen(config.models.embedder, "embedder", ctx.settings)
    weights.locate(ref, ctx.settings)
    return lambda texts: ctx.embed(ref, texts)


def forget_corpus() -> None:
    """Let go of the documents that were read last."""
    _read.cache_clear()
