"""Made-up rows of ragged length, and cosines computed one pair at a time with the published library."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from leadline.evaluators.data import ContextChunk, Row
from tests.support.models.tiny_models import WORDS


def rag_rows() -> list[Row]:
    """Return a dozen rows with several expected answers, empty chunks and repeated sentences among them."""
    draw = random.Random(5)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(2, 9))).capitalize() + "."

    def text(most: int) -> str:
        return " ".join(sentence() for _ in range(draw.randint(1, most)))

    rows = []
    for number in range(12):
        chunks = [ContextChunk(text(6), f"doc-{place}") for place in range(draw.randint(1, 5))]
        if number % 5 == 0:
            chunks.insert(draw.randint(0, len(chunks)), ContextChunk(" \n "))
        expected = tuple(text(4) for _ in range(draw.randint(1, 3)))
        answer = text(5) if number % 3 else f"{chunks[0].content} {text(3)}"
        rows.append(Row(f"c{number}", "m", sentence()[:-1] + "?", expected, tuple(chunks), answer.strip()))
    return rows


def cosine_by_library(model: Path) -> Callable[[str, str], float]:
    """Return the cosine of two texts, each through ``SentenceTransformer.encode`` alone, cut at 0 and 1."""
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(model), device="cpu", local_files_only=True)

    @cache
    def vector(text: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(library.encode([text], show_progress_bar=False)[0], dtype=np.float64)

    def cosine(first: str, second: str) -> float:
        a, b = vector(first), vector(second)
        return float(min(1.0, max(0.0, a @ b / np.sqrt((a @ a) * (b @ b)))))

    return cosine
