"""The rows of a generated dataset: without repeated questions, with stable keys and the origin of each case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from leadline.tasks.generate.chunking import DocumentChunk
from leadline.tasks.generate.duplicates import SIMILARITY, Repeats, repeated_by_meaning
from leadline.tasks.generate.questions import Pair
from leadline.tasks.ground.files import digest, handed_out

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MODEL: Final = "reference"
"""Key of the model as whose answers the expected ones stand in the dataset."""

Embed: TypeAlias = "Callable[[Sequence[str]], npt.NDArray[np.float32]]"


@dataclass(frozen=True, slots=True)
class Form:
    """The contents of the dataset beside the cases.

    Attributes:
        answers: The expected answers again, as those of a model that retrieved just the chunk, so that the dataset can
            be evaluated as it is.
        context: The chunk's text in the metadata of the case, as its reference context.
    """

    answers: bool = True
    context: bool = False


def without_repeats(
    asked: Sequence[tuple[DocumentChunk, Pair]], embed: Embed | None = None, similarity: float = SIMILARITY
) -> list[tuple[DocumentChunk, Pair]]:
    """Return the questions that ask something new, in their order.

    Args:
        asked: Questions in the order of the chunks; of several that ask the same, the first one stays.
        embed: Returns unit vectors; without it questions are compared by their words only.
        similarity: Cosine from which on two questions mean the same.
    """
    repeats = Repeats()
    kept = [(chunk, pair) for chunk, pair in asked if not repeats.seen(pair.question)]
    if embed is None or not kept:
        return kept
    dropped = repeated_by_meaning([pair.question for _, pair in kept], embed, similarity)
    return [one for place, one in enumerate(kept) if place not in dropped]


def write_rows(path: Path, cases: Sequence[tuple[DocumentChunk, Pair]], form: Form) -> None:
    """Write the dataset in Leadline's JSON Lines; it appears complete or not at all.

    Args:
        cases: Chunks with their questions and answers.
        form: The contents beside the cases.
    """
    with handed_out(path) as temporary, temporary.open("wb") as file:
        for row in _rows(cases, form):
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _rows(cases: Sequence[tuple[DocumentChunk, Pair]], form: Form) -> Iterator[dict[str, Any]]:
    for chunk, pair in cases:
        row: dict[str, Any] = {
            "case": f"q-{digest([chunk.documents[0], pair.question])[:16]}",
            "question": pair.question,
            "expected_answer": [pair.answer],
            "expected_documents": list(chunk.documents),
            "metadata": _origin(chunk) | ({"reference_context": chunk.text} if form.context else {}),
        }
        if form.answers:
            context = [{"content": chunk.text, "doc_uri": chunk.documents[0]}]
            row["answers"] = [{"model": MODEL, "actual_answer": pair.answer, "retrieved_context": context}]
        yield row


def _origin(chunk: DocumentChunk) -> dict[str, Any]:
    """Return the origin of a case."""
    values = {
        "source": chunk.documents[0],
        "page": chunk.page,
        "last_page": chunk.last_page if chunk.last_page != chunk.page else None,
        "heading": chunk.section or None,
        "chunk": chunk.digest,
        "start": chunk.start,
        "end": chunk.end,
    }
    return {name: value for name, value in values.items() if value is not None}
