"""Exact match: is the answer the expected one, but for case, punctuation, articles and white space?"""

from __future__ import annotations

from collections import Counter

from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import NO_EVIDENCE, DataKind, Evidence, Row, RowField, RowScore
from leadline.evaluators.ground import quoted
from leadline.evaluators.matching._folding import FoldingParams


@register
class ExactMatch(RowEvaluator):
    """Compares a short answer with the expected ones: equal or not, and the words that they share.

    **Method.** Both texts are composed (NFC) and put into small letters, lose the punctuation around words and the
    articles *a*, *an*, *the* before words; days with a month's name are written in one order, and any white space
    becomes one space. Each of these steps can be switched off, and ``squad`` folds as SQuAD's script does.
    ``exact_match`` is 1 if the answer then equals one of the expected answers. ``token_f1`` is ``2PR / (P + R)``, where
    ``P`` is the share of the answer's words that stand in the expected answer, each as often as it stands there, and
    ``R`` the share of the expected answer's words that stand in the answer. Of several expected answers the best
    counts, for each metric.

    **Edge cases.**

    * Signs that say something count: ``C++`` is not ``C#``, -5 not 5, 3.5 not 35, ``10^3`` not 103, 5 % not 5. With
      ``squad`` all of them are equal, and the answer "A" is an empty one.
    * Two empty texts are equal and share all; an empty text and another share nothing.
    * ``unicode_form=NFKC`` makes full-width letters equal to others.
    * Right answers in whole sentences are no exact matches; use ``contains``, ``number_match`` or a similarity there.

    **Source.** Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text (2016), evaluation script.
    """

    spec = Spec(
        id="exact_match",
        name="Exact Match",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "exact_match",
                "Share of answers that equal an expected answer, but for what does not count.",
                primary=True,
                share=True,
            ),
            Metric.higher(
                "token_f1",
                "Words shared with the nearest expected answer: harmonic mean of precision and recall.",
                name="Token F1",
            ),
        ),
        suits=(DataKind.SHORT_ANSWERS,),
        version="2",
        keywords=("rule-based", "em", "squad", "token f1", "equal"),
        source="Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250",
    )
    parameters = FoldingParams
    params: FoldingParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare one answer."""
        answer = self.params.folded(row.actual_answer or "")
        expected = [self.params.folded(text) for text in row.expected_answers]
        equal = answer in expected
        shared = 1.0 if equal else max(_token_f1(answer, text) for text in expected)
        note = "" if equal else f"The answer reads {quoted(answer)}; expected was {quoted(expected[0])}."
        return RowScore({"exact_match": float(equal), "token_f1": shared}, Evidence(note) if note else NO_EVIDENCE)


def _token_f1(answer: str, expected: str) -> float:
    ours, theirs = answer.split(), expected.split()
    if not ours or not theirs:
        return float(ours == theirs)
    same = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * same / (len(ours) + len(theirs))
