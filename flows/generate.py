"""The flow that makes a dataset of questions and answers from documents."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE

from evaluators.errors import UsageError
from evaluators.text.sentences import splitter_for
from evaluators.toolbox import Settings, Toolbox
from flows.generate_config import GenerateConfig, GenerateResult
from flows.judging import judges_of, limits_of
from flows.outputs import output_file
from flows.progress import report
from tasks.generate import Corpus, Cutting, Form, Generated, find_files, read_corpus
from tasks.generate import generate as ask_about
from tasks.ledger.place import open_ledger, read_ledger
from tasks.store import Store

if TYPE_CHECKING:
    from tasks.generate.rows import Embed


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
        UsageError: Nobody is named.
    """
    judges = judges_of(config.judges)
    if not judges:
        raise UsageError(
            "Nothing says who asks the questions.", hint="Name a judge: --judge MODEL, or set LEADLINE_JUDGE."
        )
    return Settings(**config.models.model_dump(), judges=judges)


def corpus_of(config: GenerateConfig) -> Corpus:
    """Read and cut the documents; the last ones read are remembered, so that a check before the flow costs nothing.

    Raises:
        DocumentsError: Files cannot be read; all are named.
        UsageError: There is nothing to ask about.
    """
    found = find_files(config.documents, config.uri_prefix)
    stamps = tuple((str(file.path), file.size, file.changed) for file in found.files)
    return _corpus(config.model_copy(update={"output": None, "judges": type(config.judges)()}), stamps)


@lru_cache(maxsize=1)
def _corpus(config: GenerateConfig, stamps: tuple[tuple[str, int, int], ...]) -> Corpus:
    return read_corpus(
        find_files(config.documents, config.uri_prefix),
        Cutting(config.chunk_size, config.overlap, config.unit),
        splitter_for(config.models.language, config.models.splitter),
        encoding=config.encoding,
        most=config.max_chunks,
        seed=config.seed,
    )


def embed_of(config: GenerateConfig, tools: Toolbox) -> Embed | None:
    """Return what embeds questions, ``None`` where no embedder is named.

    Raises:
        ModelUnavailable: Its weights are not here and may not be fetched.
    """
    from evaluators.models import weights

    if not config.models.embedder:
        return None
    ref = weights.chosen(config.models.embedder, "embedder", tools.settings)
    weights.locate(ref, tools.settings)
    return lambda texts: tools.embed(ref, texts)


@flow(
    name="generate",
    description="Make a dataset of questions and answers from documents.",
    persist_result=False,
)
def generate(config: GenerateConfig) -> GenerateResult:
    """Generate a dataset.

    Args:
        config: Which documents, how they are cut, who is asked, and what it may cost.

    Returns:
        Where the dataset is, and what became of the calls.
    """
    started = time.monotonic()
    store = Store.open(config.store)
    name = f"generate-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    output = output_of(config)
    tools = Toolbox(settings_of(config), ledger=open_ledger(store, name, limits_of(config.judges)))
    embed = embed_of(config, tools)
    report("read")
    corpus = corpus_of(config)
    _corpus.cache_clear()
    report("read", done=1)

    def ask() -> Generated:
        return ask_about(
            corpus,
            tools.judge_client(),
            output,
            questions=config.questions,
            form=Form(answers=config.answers, context=config.context),
            embed=embed,
            similarity=config.similarity,
            progress=lambda finished, total: report("generate", "chunks", finished, total),
        )

    # Without parameters: Prefect would walk through all chunks.
    done = task(name="ask", cache_policy=NO_CACHE, persist_result=False)(ask)()
    spent = read_ledger(store).total(name)
    log = get_run_logger()
    log.info("%d cases from %d chunks, %d calls", done.cases, done.chunks, spent.answered)
    for line in done.left_out:
        log.warning("Left out: %s", line)
    return GenerateResult(
        dataset=output.absolute(),
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
        warnings=corpus.warnings,
    )
