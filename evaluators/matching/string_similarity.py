"""The answer and the expected one as strings: equal, or how near, without the differences that do not count.

Those are of case, punctuation, articles, white space, the form of dates, and Unicode's forms.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from typing import Final, Literal

from pydantic import Field
from rapidfuzz.distance import Levenshtein as Distance

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import NO_EVIDENCE, Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import count, quoted
from leadline.evaluators.text.content_words import with_iso_dates

_ASCII: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ARTICLES_OF_WORDS: Final = re.compile(r"(?:^\s*(?i:a|an|the)|\b(?:a|an|the))(?=\s+\w)")
"""Articles with a word behind them: the A of "Vitamin A" and "Plan A" is none."""
_MARKED: Final = re.compile(r"(\*\*|__|`|(?<![\w*])[*_](?![*_]))(?=\S)(.{0,200}?\S)\1(?!\w)")
_GROUPS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_INITIALS: Final = re.compile(r"\b(?:[^\W\d_]\.){1,12}[^\W\d_]\b\.?")
_MARKS: Final = re.escape(",;:!?…\"'()[]{}«»‹›“”„‟‘’‚¿¡。、，！？：；（）「」『』【】")  # noqa: RUF001
_EDGES: Final = re.compile(rf"(?!!=)(?:(?<!\w)[{_MARKS}]|[.{_MARKS}](?!\w))")
_IN_WORDS: Final = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
_DASHES: Final = re.compile(r"\s[-\u2010-\u2015]\s|(?<=[^\W\d_])[-\u2010-\u2015](?=[^\W\d_])")
_SIGN: Final = re.compile(r"[\u2010-\u2015\u2212](?=[\d.])")


class FoldingParams(Params):
    """Parameters that say which differences between two texts do not count."""

    ignore_case: bool = Field(True, description="Upper and lower case are the same.")
    ignore_punctuation: bool = Field(
        True, description="Leave out punctuation around words; signs that say something stay: -5, 3.5, C++, C#, 10^3."
    )
    ignore_articles: bool = Field(True, description="Leave out the words a, an and the before other words.")
    ignore_white_space: bool = Field(
        True, description="Any white space is one space, and none at the beginning and the end."
    )
    same_dates: bool = Field(
        True, description="A day with a month's name is the same in any order: February 9, 2018, 9 Feb 2018."
    )
    squad: bool = Field(
        False,
        description="Fold as SQuAD's script does: all ASCII punctuation is left out, signs and decimal points too, "
        "and all articles.",
    )
    unicode_form: Literal["as_is", "NFC", "NFKC"] = Field(
        "NFC", description="Unicode's normal form to bring texts into first: NFC, NFKC, or as_is for none."
    )

    def folded(self, text: str) -> str:
        """Return a text without the differences that do not count."""
        if self.unicode_form != "as_is":
            text = unicodedata.normalize(self.unicode_form, text)
        folded = self._folded_as_squad(text) if self.squad else self._folded(text)
        # What would leave nothing says something: the choice "A", the answer "?".
        return folded if self.squad or folded.strip() or not text.strip() else text.strip().lower()

    def _folded(self, text: str) -> str:
        if self.same_dates:
            text = with_iso_dates(text)
        if self.ignore_punctuation:
            text = _without_punctuation(text)
        if self.ignore_articles:
            text = _ARTICLES_OF_WORDS.sub(" ", text)
        if self.ignore_case:
            text = text.lower()
        return " ".join(text.split()) if self.ignore_white_space else text

    def _folded_as_squad(self, text: str) -> str:
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = text.translate(_ASCII)
        if self.ignore_articles:
            text = _ARTICLES.sub(" ", text)
        return " ".join(text.split()) if self.ignore_white_space else text


def _without_punctuation(text: str) -> str:
    """Return a text without the punctuation that says nothing: around words, in thousands, initials and "don't"."""
    text = _GROUPS.sub("", _MARKED.sub(r"\2", text))
    text = _INITIALS.sub(lambda found: found[0].replace(".", ""), text)
    text = _DASHES.sub(" ", _SIGN.sub("-", _IN_WORDS.sub("", text)))
    return _EDGES.sub("", text)


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


MOST_PAIRS: Final = 10**10
"""Pairs of characters, one of the answer and one of the expected answers, that are compared; half a second's work."""


class LevenshteinParams(FoldingParams):
    """Parameters of levenshtein; by default every character counts."""

    ignore_case: bool = Field(False, description="Upper and lower case are the same.")
    ignore_punctuation: bool = Field(False, description="Leave out punctuation around words.")
    ignore_articles: bool = Field(False, description="Leave out the words a, an and the.")
    ignore_white_space: bool = Field(
        False, description="Any white space is one space, and none at the beginning and the end."
    )
    same_dates: bool = Field(False, description="A day with a month's name is the same in any order.")


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
        metrics=one_metric(
            "levenshtein",
            "1 less the share of characters that must change to make the answer the expected one.",
            name="Levenshtein similarity",
        ),
        version="2",
        keywords=("rule-based", "edit distance", "similarity", "fuzzy"),
        source="https://rapidfuzz.github.io/RapidFuzz/",
    )
    parameters = LevenshteinParams
    params: LevenshteinParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare one answer."""
        answer = self.params.folded(row.actual_answer or "")
        texts = [self.params.folded(text) for text in row.expected_answers]
        if len(answer) * sum(map(len, texts)) > MOST_PAIRS:
            message = f"The texts are too long to compare: {len(answer):,} characters against {sum(map(len, texts)):,}."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        nearest = max(texts, key=lambda text: Distance.normalized_similarity(answer, text))
        changed = Distance.distance(answer, nearest)
        value = 1.0 - changed / max(len(answer), len(nearest), 1)
        return RowScore({"levenshtein": value}, Evidence(f"{count(changed, 'character')} differ." if changed else ""))
