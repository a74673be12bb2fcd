"""Readability: how hard an English answer is to read."""

from __future__ import annotations

from leadline.evaluators.core import INF, EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.style._detector import ENGLISH, detect, prose
from leadline.evaluators.style._words import syllables, words


def reading_ease(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Return Flesch's reading ease: 206.835 - 1.015 words / sentences - 84.6 syllables / words.

    Args:
        n_words: Words of the text, at least 1.
        n_sentences: Its sentences, at least 1.
        n_syllables: Syllables of all words.
    """
    return 206.835 - 1.015 * n_words / n_sentences - 84.6 * n_syllables / n_words


def grade(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Return Flesch and Kincaid's grade: 0.39 words / sentences + 11.8 syllables / words - 15.59.

    Args:
        n_words: Words of the text, at least 1.
        n_sentences: Its sentences, at least 1.
        n_syllables: Syllables of all words.
    """
    return 0.39 * n_words / n_sentences + 11.8 * n_syllables / n_words - 15.59


@register
class Readability(RowEvaluator):
    """Readability of an English answer: Flesch's reading ease, Flesch and Kincaid's grade, words per sentence.

    **Method.** With the numbers of words, sentences and syllables of an answer:

    * ``reading_ease`` = 206.835 - 1.015 * words / sentences - 84.6 * syllables / words. 60 to 70 is plain English, 30 a
      scientific text, above 90 easy for a child of eleven.
    * ``reading_grade`` = 0.39 * words / sentences + 11.8 * syllables / words - 15.59: school years in the United
      States.
    * ``words_per_sentence``.

    Sentences are those of the run's splitter. Syllables are counted by rules for English spelling: groups of vowels
    without a silent e at the end, some of them apart. Code, tables and addresses of the web are left out.

    **Edge cases.**

    * The formulas were made for English. An answer that is surely in another language (py3langid) or has no Latin
      letters is not applicable; so is one without a word.
    * Short answers have extreme values: "Yes." has an ease of 121.22, the greatest there is. There is no least.

    **Source.** Flesch 1948, "A new readability yardstick"; Kincaid et al. 1975, "Derivation of new readability formulas
    for Navy enlisted personnel".
    """

    spec = Spec(
        id="readability",
        name="Readability",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric.higher(
                "reading_ease",
                "Flesch's reading ease; 60 to 70 is plain English, lower is harder.",
                range=(-INF, 121.23),
                threshold=None,
                primary=True,
            ),
            Metric.lower(
                "reading_grade",
                "Flesch and Kincaid's grade: school years that the text asks for.",
                range=(-3.41, INF),
                threshold=None,
            ),
            Metric.lower("words_per_sentence", "Mean number of words of a sentence.", range=(0.0, INF), threshold=None),
        ),
        packages=("py3langid",),
        sentences=True,
        insight_type="style",
        problem_type="style",
        keywords=("Flesch", "Kincaid", "plain language", "grade level"),
        source="Flesch 1948; Kincaid et al. 1975",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the three numbers of an answer."""
        text = prose(row.actual_answer or "")
        found = words(text)
        if not any(letter.isascii() and letter.isalpha() for letter in text):
            return RowScore.not_applicable(self.row_metrics, "The answer has no word in Latin letters.")
        language = detect(text)
        if language is not None and language.code != ENGLISH:
            return RowScore.not_applicable(self.row_metrics, f"The answer is not in English, but in {language.code!r}.")
        sentences = sum(1 for sentence in ctx.sentences(text) if words(sentence.text))
        numbers = len(found), max(1, sentences), sum(map(syllables, found))
        return RowScore(
            {
                "reading_ease": reading_ease(*numbers),
                "reading_grade": grade(*numbers),
                "words_per_sentence": numbers[0] / numbers[1],
            },
            evidence=Evidence(data=dict(zip(("words", "sentences", "syllables"), numbers, strict=True))),
        )
