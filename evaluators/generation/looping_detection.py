"""Looping: did the model repeat itself while it generated?"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Final

from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import NO_EVIDENCE, Evidence, Row, RowField, RowScore, Source, Span, clip
from leadline.evaluators.text.repeats import Repeat, longest_repeat
from leadline.evaluators.text.sentences import Sentence

SHORTEST_SENTENCE: Final = 10
"""Sentences of fewer characters are not counted: list markers, "Yes." and the like."""
SMALLEST_SHARE: Final = 0.1
"""Share of an answer that a repeated substring must cover to be pointed at: every text repeats a few words."""
MOST_SPANS: Final = 20
"""Stretches of a text that are pointed at, of either kind."""


@register
class LoopingDetection(RowEvaluator):
    """Looping: sentences, substrings and bytes that repeat themselves in the answer.

    Method:

    * ``unique_sentences`` = distinct sentences / all sentences, without those of fewer than 10 characters. Sentences
      are equal when they are so character by character. An answer with no sentence of 10 characters scores 1.
    * ``longest_repeated_substring`` = length of the longest substring that occurs at least twice * how often it
      occurs / length of the text, in characters. Occurrences do not overlap, neither for finding the substring nor
      for counting it: only so does the metric keep its range (in "aaaa" the substring "aaa" stands twice with
      overlap and would score 1.5) and mean a share of the text. Among equally long substrings the most frequent
      one counts. An answer without a repeated character, such as the empty one, scores 0.
    * ``compression_ratio`` = length of the zlib-compressed answer (level 9) / length of the answer, in UTF-8 bytes.
      A text of a few dozen bytes grows by compression; its ratio is cut to 1. An empty answer scores 1: there is
      nothing that repeats. Ordinary prose has a ratio of 0.4 to 0.7, the lower the longer it is, so that the default
      threshold of 0.75 fails most long answers: lower it, or read this metric beside the others.

    The evidence points at the sentences that occur more than once, and at the longest repeated substring if it has
    10 characters or more and its occurrences cover a tenth of the answer.

    Source: H2O Sonar, Looping Detection Evaluator. The longest repeated substring is found exactly, in near-linear
    time, by Karp, Miller and Rosenberg 1972.
    """

    spec = Spec(
        id="looping_detection",
        name="Looping Detection Evaluator",
        origin="h2o",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric.higher(
                "unique_sentences",
                "Distinct sentences over all sentences of the answer, those under 10 characters left out.",
                name="Unique Sentences",
                primary=True,
            ),
            Metric.lower(
                "longest_repeated_substring",
                "Share of the answer that the occurrences of its longest repeated substring cover.",
                name="Longest Repeated Substring",
            ),
            Metric.higher(
                "compression_ratio",
                "Size of the answer compressed by zlib at level 9 over its size, in bytes.",
                name="Compression Ratio",
            ),
        ),
        sentences=True,
        keywords=("looping", "repetition", "degeneration"),
        source="H2O Sonar, Looping Detection Evaluator",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the three metrics and the stretches that repeat."""
        text = row.actual_answer or ""
        sentences = [sentence for sentence in ctx.sentences(text) if len(sentence.text) >= SHORTEST_SENTENCE]
        unique = len({sentence.text for sentence in sentences})
        repeat = longest_repeat(text)
        return RowScore(
            {
                "unique_sentences": unique / len(sentences) if sentences else 1.0,
                "longest_repeated_substring": repeat.covered / len(text) if text else 0.0,
                "compression_ratio": compression_ratio(text),
            },
            _evidence(sentences, unique, repeat, len(text)),
        )


def compression_ratio(text: str) -> float:
    """Return the size of the compressed text over its size, in bytes, at most 1; 1 for an empty text."""
    raw = text.encode("utf-8", errors="surrogatepass")
    return clip(len(zlib.compress(raw, 9)) / len(raw), 0.0, 1.0) if raw else 1.0


def _evidence(sentences: list[Sentence], unique: int, repeat: Repeat, size: int) -> Evidence:
    spans: list[Span] = []
    parts: list[str] = []
    if unique < len(sentences):
        times = Counter(sentence.text for sentence in sentences)
        again = [sentence for sentence in sentences if times[sentence.text] > 1]
        spans += [
            Span(Source.ACTUAL_ANSWER, sentence.start, sentence.end, note="repeated sentence")
            for sentence in again[:MOST_SPANS]
        ]
        parts.append(f"{len(sentences) - unique} of {len(sentences)} sentences repeat another")
    if repeat.length >= SHORTEST_SENTENCE and repeat.covered >= SMALLEST_SHARE * size:
        spans += [
            Span(Source.ACTUAL_ANSWER, start, start + repeat.length, note="longest repeated substring")
            for start in repeat.starts[:MOST_SPANS]
        ]
        parts.append(f"{repeat.length} characters occur {len(repeat.starts)} times")
    return Evidence("; ".join(parts) + ".", tuple(spans)) if parts else NO_EVIDENCE
