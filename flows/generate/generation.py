"""A dataset of questions and answers from documents; the flow and the command line both run this."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

from leadline.evaluators.core.context import EvalContext
from leadline.flows.generate.config import GenerateConfig, GenerateResult
from leadline.flows.generate.prepare import corpus_of, embed_of, forget_corpus, output_of, settings_of
from leadline.flows.job import JobSteps
from leadline.flows.shared.judge_access import limits_of
from leadline.flows.shared.reporting import report
from leadline.tasks.generate import Form, Generated
from leadline.tasks.generate import generate as ask_about
from leadline.tasks.ledger.location import open_ledger, read_ledger
from leadline.tasks.store.store import Store


def run_generation(config: GenerateConfig, steps: JobSteps) -> GenerateResult:
    """Generate a dataset.

    Args:
        config: Which documents, how they are cut, who is asked, and what it may cost.
        steps: How the step is run: in this process, or as a Prefect task.

    Returns:
        Where the dataset is, and what became of the calls.
    """
    started = time.monotonic()
    store = Store.open(config.store)
    name = f"generate-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    output = output_of(config)
    ctx = EvalContext(settings_of(config), ledger=open_ledger(store, name, limits_of(config.judges)))
    embed = embed_of(config, ctx)
    report("read")
    corpus = corpus_of(config)
    forget_corpus()
    report("read", done=1)

    def ask() -> Generated:
        return ask_about(
            corpus,
            ctx.judge_client(),
            output,
            questions=config.questions,
            form=Form(answers=config.answers, context=config.context),
            embed=embed,
            similarity=config.similarity,
            progress=lambda finished, total: report("generate", "chunks", finished, total),
        )

    # Without parameters: Prefect would walk through all chunks.
    done = steps.step("ask", ask)
    spent = read_ledger(store).total(name)
    steps.log.info("%d cases from %d chunks, %d calls", done.cases, done.chunks, spent.answered)
    for line in done.left_out:
        steps.log.warning("Left out: %s", line)
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
