"""Levenshtein: how few characters must be changed to make the answer the expected one?"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import count
from leadline.evaluators.matching._folding import FoldingParams

MOST_PAIRS: Final = 10**10
"""Pairs of characters, one of the answer and one of the expected answers, that are compared; half a second's work."""


class LevenshteinParams(FoldingParams):
    """Parameters of levenshtein; by default every character counts."""

    ignore_case: Annotated[bool, Field(description="Upper and lower case are the same.")] = False
    ignore_punctuation: Annotated[bool, Field(description="Leave out punctuation around words.")] = False
    ignore_articles: Annotated[bool, Field(description="Leave out the words a, an and the.")] = False
    ignore_white_space: Annotated[
        bool, Field(description="Any white space is one space, and none at the beginning and the end.")
    ] = False
    same_dates: Annotated[bool, Field(description="A day with a month's name is the same in any order.")] = False


@register
class Levenshtein(RowEvaluator):
    """Compares the answer with the expected one by characters.

    **Method.** ``levenshtein = 1 - d / max(|answer|, |expected|)``, where ``d`` is the least number of characters that
    must be inserted, deleted or replaced to make one text the other, and the bars stand for lengths in code points. 1
    says that they are equal, 0 that no character is in its place. Of several expected answers the nearest counts. What
    does not count can be left out before (case, punctuation, articles, white space); by default everything counts.

    **Edge cases.**

    * Two empty texts are equal: 1.
    * Letters with combining marks are composed first (NFC); emoji are several code points.
    * Texts are not compared where the product of their lengths exceeds ten thousand million, as that of two texts of
      100,000 characters does not: the row is unscored.
    * Texts that share nothing in meaning share many characters: two English sentences have about 0.3.

    **Source.** Levenshtein 1966; computed by RapidFuzz (``Levenshtein.normalized_similarity``).
    """

    spec = Spec(
        id="levenshtein",
        name="Levenshtein Similarity",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "levenshtein",
                "1 less the share of characters that must change to make the answer the expected one.",
                name="Levenshtein similarity",
            ),
        ),
        version="2",
        keywords=("rule-based", "edit distance", "similarity", "fuzzy"),
        source="https://rapidfuzz.github.io/RapidFuzz/",
    )
    parameters = LevenshteinParams
    params: LevenshteinParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare one answer."""
        from rapidfuzz.distance import Levenshtein as Distance

        answer = self.params.folded(row.actual_answer or "")
        texts = [self.params.folded(text) for text in row.expected_answers]
        if len(answer) * sum(map(len, texts)) > MOST_PAIRS:
            message = f"The texts are too long to compare: {len(answer):,} characters against {sum(map(len, texts)):,}."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        nearest = max(texts, key=lambda text: Distance.normalized_similarity(answer, text))
        changed = Distance.distance(answer, nearest)
        value = 1.0 - changed / max(len(answer), len(nearest), 1)
        return RowScore({"levenshtein": value}, Evidence(f"{count(changed, 'character')} differ." if changed else ""))
