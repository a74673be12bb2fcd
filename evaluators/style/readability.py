"""Length and readability: words, sentences and syllables of an answer, limits, and how hard it is to read."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Annotated, Any, Final

import regex
from pydantic import Field

from leadline.evaluators.core import INF, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.ground import count
from leadline.evaluators.style.language import ENGLISH, detect, prose

_VOWELS: Final = re.compile(r"[aeiouy]+")
_SILENT: Final = re.compile(r"(?:[^aeiouyl]e|[aeiouy]le|[bdfkmnprtvw]es|[aeiouy]les|[^aeiouytdl]ed|[aeiouy]led)$")
"""Endings whose e is not spoken."""
_APART: Final = re.compile(
    r"(?<![cst])i(?:a|e(?=t|nc|nt)|um)|(?<![cstgln])io|[aeouy]ing|(?<=[aeiouy]\w)ea$|crea(?=t)|eo(?=$|l|g)|(?<!q)ua(?=l|t)"
    r"|uou|uel|[^aeiouy]sm$"
)
"""Vowels side by side that are usually spoken apart, and an ending with a syllable but no vowel."""


@cache
def _word() -> Any:
    return regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]|[\p{L}\p{M}\p{N}]+(?:['’‑.,·-][\p{L}\p{M}\p{N}]+)*")  # noqa: RUF001


def words(text: str) -> list[str]:
    """Return the words of a text.

    A word is a run of letters and digits; one apostrophe, hyphen, point or comma between two of them belongs to it, so
    that "don't", "well-known" and "3.5" are one word each. Each character of Chinese and each kana is a word.
    """
    return list(_word().findall(text))


@lru_cache(100_000)
def syllables(word: str) -> int:
    """Return about how many syllables an English word has, at least 1.

    Groups of vowels are counted; a silent e near the end is left out, and vowels that are usually spoken apart count
    twice. A number is one syllable for each digit.
    """
    plain = "".join(letter for letter in word.lower() if letter.isalnum())
    digits = sum(map(str.isdigit, plain))
    if digits:
        return digits
    groups = len(_VOWELS.findall(plain))
    if len(plain) > 3:
        groups -= bool(_SILENT.search(plain))
        groups += sum(1 for _ in _APART.finditer(plain))
    return max(1, groups)


_LENGTHS: Final = (
    Metric("words", "Words", False, (0, INF), None, primary=True, description="Mean number of words of an answer."),
    Metric("characters", "Characters", False, (0, INF), None, description="Mean number of characters of an answer."),
    Metric("sentences", "Sentences", False, (0, INF), None, description="Mean number of sentences of an answer."),
)
_WITHIN: Final = Metric.higher(
    "length_within_limits",
    "Share of answers whose length is within all limits that were given.",
    threshold=1.0,
    primary=True,
    share=True,
)
_UNITS: Final = {"words": "word", "characters": "character", "sentences": "sentence"}

_Limit = Annotated[int | None, Field(ge=0, description="Limit of an answer's length; empty: none.")]


class LengthParams(Params):
    """Parameters of length: its limits, both ends included."""

    min_words: _Limit = None
    max_words: _Limit = None
    min_characters: _Limit = None
    max_characters: _Limit = None
    min_sentences: _Limit = None
    max_sentences: _Limit = None


@register
class Length(RowEvaluator):
    """Numbers of words, characters and sentences of an answer, and whether they are within limits.

    **Method.** Characters are code points, blanks included. A word is a run of letters and digits, with single
    apostrophes, hyphens, points and commas between them; each Chinese character and each kana is a word. Sentences are
    those of the run's splitter. The metrics are means.

    **Limits.** With any of the parameters ``min_words`` to ``max_sentences`` there is a fourth metric, the primary one:
    ``length_within_limits`` is 1 for an answer within all limits (each included) and 0 for any other, whose evidence
    says which limit it misses. By the default policy it informs; a rule makes it block.

    **Edge cases.**

    * An empty answer has length 0, and misses any lower limit above 0.
    * Shorter is neither better nor worse; "lower is better" only orders models by their costs of reading.

    **Source.** Unicode Standard Annex 29 for what is close to a word; ISO 24612 names the units.
    """

    spec = Spec(
        id="length",
        name="Length",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=_LENGTHS,
        sentences=True,
        insight_type="style",
        problem_type="style",
        keywords=("words", "characters", "sentences", "verbosity", "limit"),
        source="Unicode Standard Annex 29, https://www.unicode.org/reports/tr29/",
    )
    parameters = LengthParams
    params: LengthParams

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The lengths, and with a limit first whether they are within it."""
        return (_WITHIN, _NOT_PRIMARY, *_LENGTHS[1:]) if self._limits() else _LENGTHS

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Count the words, characters and sentences of an answer."""
        answer = row.actual_answer or ""
        lengths = {
            "words": len(words(answer)),
            "characters": len(answer),
            "sentences": len(ctx.sentences(answer)),
        }
        values = {unit: float(number) for unit, number in lengths.items()}
        limits = self._limits()
        if not limits:
            return RowScore(values)
        missed = [
            f"{count(lengths[unit], _UNITS[unit])}, {'at least' if end == 'min' else 'at most'} {limit:,} asked for"
            for (end, unit), limit in limits.items()
            if (lengths[unit] < limit if end == "min" else lengths[unit] > limit)
        ]
        message = f"The answer has {'; '.join(missed)}." if missed else ""
        return RowScore({"length_within_limits": float(not missed), **values}, evidence=Evidence(message))

    def _limits(self) -> dict[tuple[str, str], int]:
        found = {(end, unit): getattr(self.params, f"{end}_{unit}") for unit in _UNITS for end in ("min", "max")}
        return {name: limit for name, limit in found.items() if limit is not None}


_NOT_PRIMARY: Final = Metric("words", "Words", False, (0, INF), None, description=_LENGTHS[0].description)


def reading_ease(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Return the reading ease of a text with a word: 206.835 - 1.015 words / sentences - 84.6 syllables / words."""
    return 206.835 - 1.015 * n_words / n_sentences - 84.6 * n_syllables / n_words


def grade(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Return the grade of a text with a word: 0.39 words / sentences + 11.8 syllables / words - 15.59."""
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
