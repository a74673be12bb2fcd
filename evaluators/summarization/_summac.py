"""SummaC: faithfulness of a summary to its document, by natural language inference on pairs of their sentences.

Method: https://arxiv.org/abs/2111.09525; see also :mod:`leadline.evaluators.models.summac_conv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from leadline.evaluators.core.model_evaluator import lowest, quote
from leadline.evaluators.data import Flag, Json, Reason, Severity, Source, Span, Unscored, clip
from leadline.evaluators.ground import LeadlineError, ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models import inference, summac_conv
from leadline.evaluators.models.results import CONTRADICTION, ENTAILMENT
from leadline.evaluators.models.summac_conv import SummaCConv
from leadline.evaluators.text.sentences import Sentence

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings


CONV: Final = "faithfulness_summac_conv"
ZERO_SHOT: Final = "faithfulness_summac_zs"
METRICS: Final = (CONV, ZERO_SHOT)

BLOCK_PAIRS: Final = 20_000
"""Pairs of sentences that are in memory at a time."""

ZeroShot: TypeAlias = Literal["difference", "package", "entailment"]
_SHORTEST: Final = 11
"""Characters of a sentence that counts, at least; shorter ones are headings and remains of lists."""

_REASONS: Final[dict[type[LeadlineError], Reason]] = {
    ModelUnavailable: Reason.MODEL_UNAVAILABLE,
    OutOfMemory: Reason.OUT_OF_MEMORY,
}


def zero_shot(
    entailment: npt.NDArray[np.float64], contradiction: npt.NDArray[np.float64], way: ZeroShot = "difference"
) -> npt.NDArray[np.float64]:
    """Return how well a document supports each summary sentence, of shape ``(summary sentences,)`` in [-1, 1].

    Args:
        entailment: Probabilities of shape ``(document sentences, summary sentences)``.
        contradiction: Likewise.
        way: ``difference`` is ``max(E - C)``, ``package`` is ``max E - max C``, ``entailment`` is ``max E``, each over
            the document's sentences.
    """
    if way == "entailment":
        return np.asarray(entailment.max(axis=0))
    if way == "package":
        return np.asarray(entailment.max(axis=0) - contradiction.max(axis=0))
    return np.asarray((entailment - contradiction).max(axis=0))


@dataclass(frozen=True)
class SummaC:
    """Measures both SummaC metrics.

    Attributes:
        model: Weights for natural language inference.
        conv: Weights of SummaC Conv.
        way: How SummaC ZS combines probabilities; see :func:`zero_shot`.
        max_pairs: Pairs of sentences that are compared for one row, at most.
        settings: The run's choices.
        explain: Words an error that was raised on purpose for readers.
    """

    model: ModelRef
    conv: ModelRef
    way: ZeroShot
    max_pairs: int
    settings: Settings
    explain: Callable[[LeadlineError], object] = str

    def of(self, rows: Sequence[Texts]) -> list[SummaryPart]:
        """Measure rows, all their pairs in as few passes as memory allows."""
        if not rows:
            return []
        sentences = [sentence.text for row in rows for sentence in (*row.document, *row.summary)]
        try:
            pieces = inference.fit(self.model, sentences, settings=self.settings)
        except LeadlineError as error:
            return [failed(METRICS, error, self.explain)] * len(rows)
        rows = [Texts(_cut(row.document, pieces), _cut(row.summary, pieces)) for row in rows]
        layer = self._layer()
        out = {at: part for at, row in enumerate(rows) if (part := self._unmeasured(row))}
        block: list[int] = []
        for at in range(len(rows)):
            if at not in out:
                block.append(at)
            if at == len(rows) - 1 or sum(rows[one].pairs for one in block) >= BLOCK_PAIRS:
                out.update(zip(block, self._block([rows[one] for one in block], layer), strict=True))
                block = []
        return [out[at] for at in range(len(rows))]

    def _unmeasured(self, row: Texts) -> SummaryPart | None:
        """Return the part of a row that cannot be measured, ``None`` if it can."""
        message = row.missing
        if not message and row.pairs > self.max_pairs:
            message = (
                f"{len(row.document)} by {len(row.summary)} sentences make more pairs than the {self.max_pairs} that "
                "are compared for one row (max_pairs)."
            )
        return without(METRICS, Reason.UNSCORABLE, message, flag=True) if message else None

    def _layer(self) -> SummaCConv | Unscored:
        """Return SummaC Conv's layer, or why it is missing; called once, since it may be downloaded."""
        try:
            return summac_conv.layer(self.conv, settings=self.settings)
        except ModelUnavailable as error:
            return Unscored(Reason.MODEL_UNAVAILABLE, str(self.explain(error)))

    def _block(self, rows: Sequence[Texts], layer: SummaCConv | Unscored) -> list[SummaryPart]:
        pairs = [(premise.text, claim.text) for row in rows for claim in row.summary for premise in row.document]
        found = None
        try:
            found = inference.infer(self.model, pairs, settings=self.settings)
        except OutOfMemory as error:
            if len(rows) == 1:
                return [failed(METRICS, error, self.explain)]
        except LeadlineError as error:
            return [failed(METRICS, error, self.explain)] * len(rows)
        if found is None:  # outside the handler, which keeps the tensors of the attempt that failed
            return [self._block([row], layer)[0] for row in rows]
        out = []
        first = 0
        for row in rows:
            out.append(self._measure(row, found[first : first + row.pairs], layer))
            first += row.pairs
        return out

    def _measure(self, row: Texts, found: npt.NDArray[np.float64], layer: SummaCConv | Unscored) -> SummaryPart:
        shape = (len(row.summary), len(row.document))
        entailment = found[:, ENTAILMENT].reshape(shape).T
        contradiction = found[:, CONTRADICTION].reshape(shape).T
        support = zero_shot(entailment, contradiction, self.way)
        values: dict[str, float | Unscored] = {
            ZERO_SHOT: clip(float(support.mean()), 0.0, 1.0),
            CONV: layer if isinstance(layer, Unscored) else layer.score(entailment),
        }
        each = support.tolist()
        closest = [row.document[at] for at in entailment.argmax(axis=0).tolist()]
        worst = min(range(len(each)), key=each.__getitem__)
        shown = lowest(each)
        return SummaryPart(
            values,
            {
                "least_supported": {
                    "sentence": quote(row.summary[worst].text),
                    "value": each[worst],
                    "closest": quote(closest[worst].text),
                },
                "closest": [[closest[at].start, closest[at].end] for at in shown],
                "pairs": row.pairs,
            },
            tuple(
                Span(Source.ACTUAL_ANSWER, row.summary[at].start, row.summary[at].end, value=each[at]) for at in shown
            ),
        )


def _cut(sentences: Sequence[Sentence], pieces: Mapping[str, Sequence[tuple[int, int]]]) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(sentence.text[start:end], sentence.start + start, sentence.start + end)
        for sentence in sentences
        for start, end in pieces[sentence.text]
    )


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
    return tuple(sentence for sentence in sentences if len(sentence.text) >= _SHORTEST) or tuple(sentences)


def without(metrics: Sequence[str], reason: Reason, message: str, *, flag: bool = False) -> SummaryPart:
    """Return the part of metrics that could not be measured."""
    flags = (Flag("evaluation", Severity.MEDIUM, message),) if flag else ()
    return SummaryPart({metric: Unscored(reason, message) for metric in metrics}, {}, flags=flags)


def failed(metrics: Sequence[str], error: Exception, explain: Callable[[LeadlineError], object] = str) -> SummaryPart:
    """Return the part of a measure that failed."""
    if isinstance(error, LeadlineError):
        return without(metrics, _REASONS.get(type(error), Reason.EVALUATOR_ERROR), str(explain(error)))
    return without(metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")
