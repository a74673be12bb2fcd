"""The sentences of a summary and its document, and the values of one of the evaluator's two measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.data.row import Flag, Json, Reason, Severity, Span, Unscored
from leadline.evaluators.ground.errors import LeadlineError, ModelUnavailable, OutOfMemory
from leadline.evaluators.text.sentences import Sentence

SHORTEST: Final = 11
"""Characters of a sentence that counts, at least; shorter ones are headings and remains of lists."""

_REASONS: Final[dict[type[LeadlineError], Reason]] = {
    ModelUnavailable: Reason.MODEL_UNAVAILABLE,
    OutOfMemory: Reason.OUT_OF_MEMORY,
}


@dataclass(frozen=True)
class Texts:
    """The sentences of a row that count."""

    document: tuple[Sentence, ...]
    summary: tuple[Sentence, ...]

    @property
    def pairs(self) -> int:
        """Pairs of a document's and a summary's sentence."""
        return len(self.document) * len(self.summary)

    @property
    def missing(self) -> str:
        """The reason why a row cannot be measured at all, or ``""``."""
        if not self.document:
            return "The document (the question) has no sentence."
        return "" if self.summary else "The summary (the answer) has no sentence."


@dataclass(frozen=True)
class SummaryPart:
    """The values of one measure for a row, with their evidence."""

    values: dict[str, float | Unscored]
    data: dict[str, Json]
    spans: tuple[Span, ...] = ()
    flags: tuple[Flag, ...] = ()


def counting(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Return the sentences that are long enough to count, or all if every one is too short."""
    return tuple(sentence for sentence in sentences if len(sentence.text) >= SHORTEST) or tuple(sentences)


def without(metrics: Sequence[str], reason: Reason, message: str, *, flag: bool = False) -> SummaryPart:
    """Return the part of metrics that could not be measured.

    Args:
        metrics: Their keys.
        reason: Why they could not be measured.
        message: The same in words.
        flag: Whether to report it as a problem.
    """
    flags = (Flag("evaluation", Severity.MEDIUM, message),) if flag else ()
    return SummaryPart({metric: Unscored(reason, message) for metric in metrics}, {}, flags=flags)


def failed(metrics: Sequence[str], error: Exception, explain: Callable[[LeadlineError], object] = str) -> SummaryPart:
    """Return the part of a measure that failed.

    Args:
        metrics: Keys of the metrics that it would have measured.
        error: What happened.
        explain: Words an error that was raised on purpose for readers.
    """
    if isinstance(error, LeadlineError):
        return without(metrics, _REASONS.get(type(error), Reason.EVALUATOR_ERROR), str(explain(error)))
    return without(metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")
