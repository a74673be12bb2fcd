"""Quotations of an answer: do the words that it puts in quotation marks stand in the retrieved contexts?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field
from rapidfuzz.fuzz import partial_ratio

from leadline.evaluators.core import DataKind, EvalContext, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import count, listing, quoted

MOST_QUOTATIONS: Final = 500
"""Quotations of an answer that are looked for."""

LONGEST: Final = 2_000
"""Characters of a quotation."""

_QUOTED: Final = re.compile(
    "|".join(
        f"{opening}([^{inner}\\n]{{1,{LONGEST}}}){closing}"
        for opening, inner, closing in (
            ('"', '"', '"'),
            ("\u201c", "\u201c\u201d", "\u201d"),
            ("\u201e", "\u201e\u201c\u201d", "[\u201c\u201d]"),
            ("\u00ab", "\u00ab\u00bb", "\u00bb"),
            ("\u300c", "\u300c\u300d", "\u300d"),
        )
    )
)
_GAP: Final = re.compile(r"\[?(?:\u2026|\.{3,})\]?|\[[^\]\n]{0,60}\]")
_ALIKE: Final = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2010": "-",
        "\u2011": "-",
        "\u00a0": " ",
    }
)
_EDGE: Final = " \t.,;:!?-'\""


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation in an answer: its words without the marks, and their place."""

    text: str
    start: int
    end: int


class SearchedText:
    """A context in which quotations are looked for, without differences of case, white space and typography.

    Attributes:
        text: The context.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        folded, places = [], []
        blank = True
        for place, char in enumerate(text.translate(_ALIKE)):
            if char.isspace():
                if not blank:
                    folded.append(" ")
                    places.append(place)
                blank = True
                continue
            blank = False
            for letter in char.casefold():
                folded.append(letter)
                places.append(place)
        self._folded = "".join(folded)
        self._places = places

    def find(self, parts: Sequence[str]) -> tuple[int, int] | None:
        """Return where the parts of a quotation stand one after the other: from where to where in the context.

        Each part is taken where it stands first behind the one before, which finds all of them if that can be.
        """
        at, start = 0, -1
        for part in parts:
            at = self._folded.find(part, at)
            if at < 0:
                return None
            start = at if start < 0 else start
            at += len(part)
        return (self._places[start], self._places[at - 1] + 1) if start >= 0 else None

    def similarity(self, parts: Sequence[str]) -> float:
        """Return how near the least near part comes to some stretch of the context, from 0 to 1."""
        return min((partial_ratio(part, self._folded) / 100 for part in parts), default=0.0) if self._folded else 0.0


def folded_parts(quotation: str) -> tuple[str, ...]:
    """Return the parts of a quotation between its gaps (an ellipsis, or an editor's word in brackets), folded."""
    parts = (" ".join(part.translate(_ALIKE).casefold().split()).strip(_EDGE) for part in _GAP.split(quotation))
    return tuple(part for part in parts if part)


def quotations(answer: str, min_words: int) -> Iterator[Quotation]:
    """Yield the quotations of an answer, in order; at most :data:`MOST_QUOTATIONS`.

    Args:
        min_words: Shorter ones are names and words that the writer keeps at a distance, and are left out.
    """
    found = 0
    for match in _QUOTED.finditer(answer):
        number = match.lastindex or 0
        text = match[number]
        if len(text.split()) < min_words or not folded_parts(text):
            continue
        yield Quotation(text, match.start(number), match.end(number))
        found += 1
        if found == MOST_QUOTATIONS:
            return


class QuotedSpansParams(Params):
    """Parameters of quoted_spans."""

    min_words: int = Field(3, ge=1, description="Words that a quotation has at least; shorter ones are left out.")
    similarity: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Least similarity (RapidFuzz partial ratio) to a stretch of a context; 1 asks for equal words.",
    )


@register
class QuotedSpans(RowEvaluator):
    """Looks up the answer's quotations in the retrieved contexts: a quotation that stands nowhere is made up.

    **Method.** A quotation is what stands between a pair of quotation marks (straight, curly, German, French,
    Chinese) on one line, if it has at least ``min_words`` words. It is found if its characters stand in one context
    in a row, but for case, white space, the kinds of quotation marks, apostrophes and dashes, and punctuation at its
    ends. An ellipsis, or a word in square brackets, stands for words left out: the parts must then follow one another
    in one context. The metric is the share of an answer's quotations that are found; the evidence points at each in
    the answer, and at its place in the context. ``similarity`` below 1 accepts a stretch of a context that is nearly
    the same.

    **Edge cases.**

    * An answer without a quotation is not applicable, as is a row without contexts.
    * Titles and words in marks for distance are mostly shorter than three words; raise ``min_words`` if yours are
      longer.
    * A quotation from the question is left out, as in "I found nothing about …".
    * Single quotation marks are apostrophes too often, and are not read. At most 500 quotations of an answer count.

    **Source.** Verbatim quotation as evidence: Menick et al., Teaching language models to support answers with verified
    quotes (2022).
    """

    spec = Spec(
        id="quoted_spans",
        name="Quoted Spans",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.QUESTION}),
        metrics=one_metric(
            "quoted_spans",
            "Share of an answer's quotations that stand in a retrieved context.",
            name="Quotations found",
            threshold=0.9,
        ),
        llm=False,
        suits=(DataKind.QUOTING,),
        keywords=("rule-based", "quote", "verbatim", "grounding", "hallucination"),
        source="Menick et al. 2022, https://arxiv.org/abs/2203.11147",
    )
    parameters = QuotedSpansParams
    params: QuotedSpansParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Look up the quotations of one answer."""
        asked = SearchedText(row.question or "")
        there = [
            quotation
            for quotation in quotations(row.actual_answer or "", self.params.min_words)
            if asked.find(folded_parts(quotation.text)) is None
        ]
        if not there:
            return RowScore.not_applicable(self.row_metrics, "The answer quotes nothing.")
        contexts = [SearchedText(chunk.content) for chunk in row.retrieved_context]
        spans: list[Span] = []
        made_up: list[str] = []
        for quotation in there:
            parts = folded_parts(quotation.text)
            place = next(
                ((number, *found) for number, each in enumerate(contexts) if (found := each.find(parts)) is not None),
                None,
            )
            good = place is not None or (self.params.similarity < 1 and self._is_near(parts, contexts))
            spans.append(Span(Source.ACTUAL_ANSWER, quotation.start, quotation.end, value=float(good)))
            if place is not None:
                spans.append(Span(Source.RETRIEVED_CONTEXT, place[1], place[2], place[0], note="quoted"))
            if not good:
                made_up.append(quoted(quotation.text, most=80))
        message = (
            f"No context has {listing(made_up, most=4)}." if made_up else f"All of {count(len(there), 'quotation')}."
        )
        return RowScore(
            {"quoted_spans": 1 - len(made_up) / len(there)}, Evidence(message if made_up else "", tuple(spans))
        )

    def _is_near(self, parts: tuple[str, ...], contexts: list[SearchedText]) -> bool:
        return any(each.similarity(parts) >= self.params.similarity for each in contexts)
