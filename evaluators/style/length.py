"""Length: how long answers are, and whether that is within limits."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from leadline.evaluators.core import INF, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.ground import count
from leadline.evaluators.style._words import words

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
