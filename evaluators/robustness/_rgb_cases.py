"""The RGB test case of a row, read from its metadata or its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leadline.evaluators.data.row import Json, Row

Language: TypeAlias = Literal["en", "zh"]

NOISE: Final = "noise_robustness"
REJECTION: Final = "negative_rejection"
INTEGRATION: Final = "information_integration"
COUNTERFACTUAL: Final = "counterfactual_robustness"
CLOSED_BOOK: Final = "closed_book"
"""The task without documents, which tests what the model knows by itself."""

_HAN: Final = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class RgbCase:
    """A test case as the scorers need it.

    Attributes:
        task: The ability of RGB that it tests, ``None`` when the dataset does not name one.
        parts: Parts that the answer must contain, each in one of its spellings.
        counterfactual: The wrong answers that the documents give.
        language: Of question and answer; decides whether spaces count.
    """

    task: str | None
    parts: tuple[tuple[str, ...], ...]
    counterfactual: tuple[str, ...]
    language: Language


def rgb_case(row: Row) -> RgbCase:
    """Read a row's metadata ``rgb``, as ``leadline data rgb build`` writes it; without it the row's own fields.

    ``rgb.answer`` is RGB's own notation: a text, or a list of parts that must all be there, each a text or a list of
    spellings. Without it the expected answers are the spellings of one part. ``counterfactual_answer`` (in ``rgb``
    or beside it) is the wrong answer of the documents, or several.
    """
    given = row.metadata.get("rgb")
    tags: Mapping[str, Json] = given if isinstance(given, Mapping) else {}
    task = tags.get("task")
    wrong = tags.get("counterfactual_answer", row.metadata.get("counterfactual_answer"))
    parts = tuple(_parts(tags["answer"])) if tags.get("answer") else _one_part(row.expected_answers)
    return RgbCase(
        task=task if isinstance(task, str) else None,
        parts=parts,
        counterfactual=tuple(_texts(wrong)),
        language=_language(tags.get("language"), row),
    )


def _one_part(spellings: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (spellings,) if spellings else ()


def _parts(answer: Json) -> Iterator[tuple[str, ...]]:
    for part in answer if isinstance(answer, list | tuple) else (answer,):
        spellings = tuple(_texts(part))
        if spellings:
            yield spellings


def _texts(value: Json) -> Iterator[str]:
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, str):
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield str(each)


def _language(tag: Json, row: Row) -> Language:
    if tag == "zh":
        return "zh"
    if tag == "en":
        return "en"
    texts = (*row.expected_answers, row.actual_answer or "")
    return "zh" if any(_HAN.search(text) for text in texts) else "en"
