"""RGB's test cases and two readings of its rules: ``space``, its application's; ``official``, the paper's.

Both look for words in the answer, so both have known errors, which are documented here and kept for the sake of
comparable numbers. ``official`` follows Chen et al., *Benchmarking Large Language Models in
Retrieval-Augmented Generation* (AAAI 2024, arXiv:2309.01431), without the judged figures Rej* and ED*.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from leadline.evaluators.data import Json, Row

REFUSALS: Final = (
    "i can not answer the question because of the insufficient information in documents",
    "insufficient information in documents",
    "can not answer",
    "cannot answer",
    "i don't know",
    "i cannot",
    "i can't",
    "unable to",
    "not able to",
    "insufficient information",
    "no information",
    "cannot determine",
    "not enough information",
    "don't have enough",
    "unable to determine",
    "cannot find",
    "no relevant",
    "not mentioned",
    "not provided",
    "not specified",
    "unclear",
    "unknown",
    "i'm not sure",
    "i am not sure",
    "cannot be determined",
    "information is not available",
    "does not provide",
)
"""Words of a refusal, those of the paper's figure 3 first."""

DETECTIONS: Final = (
    "incorrect",
    "wrong",
    "false",
    "error",
    "mistake",
    "inaccurate",
    "not true",
    "not correct",
    "factually incorrect",
    "contradicts",
    "actually",
    "in fact",
    "however",
    "but actually",
    "the correct answer",
    "should be",
)
"""Words by which an answer shows that it noticed an error."""

OVERLAP: Final = 0.8
"""Share of the expected answer's words that must stand in the answer."""

OFFICIAL_REFUSALS: Final = ("信息不足", "insufficient information")
OFFICIAL_DETECTIONS: Final = ("事实性错误", "factual errors")
"""Words of the sentences that the benchmark's prompt demands; upper and lower case differ."""

_ENDS: Final = ".!?,;:"
_CURLY: Final = str.maketrans({"\u2019": "'", "\u2018": "'"})
Language: TypeAlias = Literal["en", "zh"]
NOISE: Final = "noise_robustness"
REJECTION: Final = "negative_rejection"
INTEGRATION: Final = "information_integration"
COUNTERFACTUAL: Final = "counterfactual_robustness"
CLOSED_BOOK: Final = "closed_book"
"""The task without documents, which tests what the model knows by itself."""

_HAN: Final = re.compile("[\u4e00-\u9fff]")


class Scorer(Protocol):
    """Rules by which an answer is read."""

    def labels(self, answer: str, case: RgbCase) -> list[int]:
        """Return for each part of the expected answer whether it is there, or ``[-1]`` for a refusal.

        Args:
            case: The test case.
        """

    def refusal(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that refuse, ``None`` when there are none.

        Args:
            case: The test case.
        """

    def detection(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that say that the documents are wrong, ``None`` when there are none.

        Args:
            case: The test case.
        """

    def corrects(self, answer: str, case: RgbCase) -> bool:
        """Return whether the right answer is given instead of the documents' wrong one.

        Args:
            case: The test case.
        """


def is_right(labels: Sequence[int]) -> bool:
    """Return whether every part of the expected answer is there."""
    return 1 in labels and 0 not in labels and -1 not in labels


class Space:
    """The application's rules: flexible matching by containment or by four fifths of the words.

    Known quirks, kept: an answer shorter than the expected one counts when it stands in it ("is" for "Paris is
    nice"); a negation counts ("not Norway" for "Norway"); "however" counts as detection and "unknown" as refusal.
    Typographic apostrophes are read as plain ones, which the application does not do.

    Args:
        strict: Whether only an equal text counts.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict

    def labels(self, answer: str, case: RgbCase) -> list[int]:
        """See :class:`Scorer`; a refusal is an answer like any other."""
        return [int(any(self.is_correct(answer, text) for text in part)) for part in case.parts]

    def refusal(self, answer: str, case: RgbCase) -> str | None:
        """See :class:`Scorer`."""
        return _first(REFUSALS, answer.lower().translate(_CURLY))

    def detection(self, answer: str, case: RgbCase) -> str | None:
        """See :class:`Scorer`."""
        text = answer.lower().translate(_CURLY)
        denials = (f"{start}{wrong.lower()}{end}" for wrong in case.counterfactual if wrong
                   for start, end in (("not ", ""), ("", " is wrong")))  # fmt: skip
        return _first((*DETECTIONS, *denials), text)

    def corrects(self, answer: str, case: RgbCase) -> bool:
        """See :class:`Scorer`; it need not be detected."""
        if not is_right(self.labels(answer, case)):
            return False
        text = normalized(answer)
        repeats = any(normalized(wrong) in text for wrong in case.counterfactual)
        return not repeats or all(any(normalized(right) in text for right in part) for part in case.parts)

    def is_correct(self, answer: str, truth: str) -> bool:
        """Return whether an answer is one expected text.

        Args:
            truth: The expected text.
        """
        given, wanted = normalized(answer), normalized(truth)
        if not given or not wanted:
            return False
        if self._strict:
            return given == wanted
        if wanted in given or (len(given) < len(wanted) and given in wanted):
            return True
        words = set(wanted.split())
        return len(words & set(given.split())) / len(words) >= OVERLAP


class Official:
    """The paper's rules: every part must stand in the answer, in any letter case; a refusal is no answer.

    In Chinese the spaces of the answer do not count.

    Args:
        refusals_correct: Whether a refusal that noticed the error counts as its correction, as in the benchmark's
            ``evalue.py`` but not in the paper's figures.
    """

    def __init__(self, *, refusals_correct: bool = False) -> None:
        self._refusals_correct = refusals_correct

    def labels(self, answer: str, case: RgbCase) -> list[int]:
        """See :class:`Scorer`."""
        if self.refusal(answer, case):
            return [-1]
        text = _read(answer, case).lower()
        return [int(any(spelling.lower() in text for spelling in part)) for part in case.parts]

    def refusal(self, answer: str, case: RgbCase) -> str | None:
        """See :class:`Scorer`."""
        return _first(OFFICIAL_REFUSALS, _read(answer, case))

    def detection(self, answer: str, case: RgbCase) -> str | None:
        """See :class:`Scorer`."""
        return _first(OFFICIAL_DETECTIONS, _read(answer, case))

    def corrects(self, answer: str, case: RgbCase) -> bool:
        """See :class:`Scorer`."""
        labels = self.labels(answer, case)
        return is_right(labels) or (self._refusals_correct and labels == [-1])


def normalized(text: str) -> str:
    """Return a text in lower case, without punctuation at its end, with single spaces."""
    return " ".join(text.lower().strip().rstrip(_ENDS).split())


def _read(answer: str, case: RgbCase) -> str:
    return answer.replace(" ", "") if case.language == "zh" else answer


def _first(wanted: Sequence[str], text: str) -> str | None:
    return next((words for words in wanted if words in text), None)


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
