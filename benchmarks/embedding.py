"""Embedding evaluators on RAG rows, as a share of the speed of raw ``SentenceTransformer.encode`` on the same texts.

    python benchmarks/embedding.py [--rows 100] [--repeats 5] [--embedder offline] [--device auto]

The evaluators run as a chunk does: sentence splitting, one encoding pass for all five of them, all scores with their
evidence, and the vectors written to a store. Against them stands ``encode`` on the list of unique texts, which is all
that a model must at least do. Both run in turns with equal loaded models, and the best turns are compared, since
other work on the machine can only slow a turn down; at least 0.9 is wanted. When the turns of one side differ much,
the machine was busy, and the share by processor time says more. At the end the same rows are scored again from the
store.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe, verdict
from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import embedders, runtime, weights
from leadline.evaluators.settings import Settings
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors import ParquetVectors

EVALUATORS = (
    "answer_semantic_similarity",
    "answer_semantic_sentence_similarity",
    "answer_relevancy_sentence_similarity",
    "groundedness",
    "context_relevancy_soft",
)
SYSTEMS = 4
WORDS = re.findall(
    r"\w+",
    "the a harbour pilot must report any change of course to the control tower before the ship enters its channel "
    "insurance premium revenue grew by twelve percent in second quarter while operating costs of cloud platform fell "
    "patients who received new treatment showed fewer side effects than those given placebo according to the study "
    "court held that contract was void because neither party had disclosed material facts regarding ownership of land ",
)


def rag_rows(count: int, seed: int = 7) -> list[Row]:
    """Return rows of several systems that answer the same questions from overlapping chunks of ragged length."""
    draw = random.Random(seed)

    def sentence() -> str:
        length = min(60, 4 + int(draw.expovariate(1 / 14)))
        return " ".join(draw.choice(WORDS) for _ in range(length)).capitalize() + "."

    def paragraph(most: int) -> str:
        return " ".join(sentence() for _ in range(draw.randint(1, most)))

    rows = []
    for case in range((count + SYSTEMS - 1) // SYSTEMS):
        question, expected = sentence()[:-1] + "?", paragraph(3)
        chunks = [ContextChunk(paragraph(6)) for _ in range(6)]
        for system in range(SYSTEMS):
            found = tuple(draw.sample(chunks, 4))
            rows.append(Row(str(case), str(system), question, (expected,), found, paragraph(5)))
    return rows[:count]


def score(rows: Sequence[Row], ctx: EvalContext) -> None:
    """Score the rows with all evaluators, as a chunk does, with nothing remembered in this process."""
    embedders.forget()
    ctx.forget()
    chosen = [get(evaluator)() for evaluator in EVALUATORS]
    texts: dict[ModelRef, dict[str, None]] = {}
    for evaluator in chosen:
        for ref, wanted in evaluator.texts_to_embed(rows, ctx).items():
            texts.setdefault(ref, {}).update(dict.fromkeys(wanted))
    for ref, wanted in texts.items():
        ctx.embed(ref, list(wanted))
    for evaluator in chosen:
        scores = evaluator.score(rows, ctx)
        assert all(score.complete for score in scores)


class Turn(NamedTuple):
    """What one turn took, in seconds: on the clock, and of all processors together."""

    wall: float
    processor: float


def timed(call: Callable[[], object]) -> Turn:
    """Run something and say what it took."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Turn(time.perf_counter() - wall, time.process_time() - processor)


def _seconds(turns: Sequence[Turn]) -> str:
    return " ".join(f"{turn.wall:.1f}" for turn in turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--embedder", default="offline")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()

    settings = Settings(embedder=options.embedder, device=options.device, precision="float32")
    ref = weights.parse_ref(options.embedder)
    embedders.embed(ref, ["warm up"], settings=settings)
    from sentence_transformers import SentenceTransformer  # after the product has set how torch's threads wait

    device = runtime.device_for(settings)
    raw_model = SentenceTransformer(str(weights.locate(ref, settings)), device=device, local_files_only=True)
    raw_model.encode(["warm up"], show_progress_bar=False)

    rows = rag_rows(options.rows)
    plain = EvalContext(settings)
    texts = list(
        dict.fromkeys(
            text
            for evaluator in EVALUATORS
            for wanted in get(evaluator)().texts_to_embed(rows, plain).values()
            for text in wanted
        )
    )
    raw, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.repeats):
            raw.append(timed(lambda: raw_model.encode(texts, show_progress_bar=False, normalize_embeddings=True)))
            store = ParquetVectors(Store.open(Path(folder) / str(turn)))
            ours.append(timed(partial(score, rows, EvalContext(settings, store))))
        warm = timed(lambda: score(rows, EvalContext(settings, store)))
    base, mine = min(raw), min(ours)
    busy = min(turn.processor for turn in raw) / min(turn.processor for turn in ours)
    print(describe())
    print(f"{options.embedder} on {device}: {len(rows)} rows, {len(texts)} unique texts, {len(EVALUATORS)} evaluators")
    print(f"raw encode:           {base.wall:7.2f} s  {len(texts) / base.wall:8.0f} texts/s")
    print(f"evaluators:           {mine.wall:7.2f} s  {len(texts) / mine.wall:8.0f} texts/s")
    print(f"turns, in seconds:    raw {_seconds(raw)}; evaluators {_seconds(ours)}")
    print(f"again, from the store:{warm.wall:7.2f} s  {warm.wall / mine.wall:8.1%} of the first time")
    print(f"share by processor time instead of the clock: {busy:.2f}")
    print(verdict("Share of raw encoding speed", base.wall / mine.wall, 0.9))


if __name__ == "__main__":
    main()
