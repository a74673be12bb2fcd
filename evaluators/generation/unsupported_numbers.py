"""Unsupported numbers: does the answer give numbers, dates or amounts that its contexts do not hold?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

from leadline.evaluators.core import EvalContext, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import listing, quoted
from leadline.evaluators.text.quantities import Number, read_numbers

MOST_NAMED: Final = 20
"""Unsupported numbers of an answer that are pointed at."""
MOST_COMBINED: Final = 8
"""Numbers of the texts of which every two are added and subtracted; with more of them any number would come about."""

_CONVERSIONS: Final = (1e3, 1e6, 1e9, 100.0, 60.0, 3_600.0, 24.0, 7.0, 12.0, 365.0, 1.609344, 0.45359237, 2.54, 30.48)
"""Factors between units of one kind: grams and kilograms, minutes and hours, miles and kilometres, and percent."""

_LIST_MARK: Final = re.compile(r"[ \t]{0,20}(?:[-*\u2022]|\(?\d{1,3}[.)])[ \t*_]")
_SMALL: Final = 3.0
"""Up to here a number that is spelt out counts things ("two reasons") more often than it states a fact."""


@register
class UnsupportedNumbers(RowEvaluator):
    """Looks for numbers of the answer in contexts, question and expected answer, whatever their form.

    **Method.** Numbers are read by value: "1.5 million" is 1,500,000, "four" is 4, "March 5" and "2024-03-05" hold a 5.
    A number is supported if it stands in one of the texts, if it is one of them rounded, converted between units
    (kilograms, hours, miles, percent), or if two of them give it as their sum or difference. The metric is the share
    of answers with a number that is not supported: lower is better.

    **Edge cases.**

    * Marks of lists and citations, "one", "two" and "three" spelt out, the number of things that the answer lists, and
      digits within a name ("MP3") are no numbers of it.
    * An answer without a number has none that is unsupported: 0. Without a context it is not applicable.
    * A number that stands in the texts and means something else there is not noticed.

    **Source.** Leadline's own, after the checks of numbers in data-to-text generation (Wiseman et al. 2017).
    """

    spec = Spec(
        id="unsupported_numbers",
        name="Unsupported Numbers",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.QUESTION, RowField.EXPECTED_ANSWER}),
        metrics=one_metric(
            "unsupported_numbers",
            "Share of answers with a number, date or amount that stands in no text given to the model.",
            threshold=0.0,
            share=True,
            higher_is_better=False,
        ),
        keywords=("rule-based", "hallucination", "numbers", "dates", "invented"),
        source="Wiseman et al. 2017, https://arxiv.org/abs/1707.08052",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Look for the numbers of one answer."""
        if not any(chunk.content.strip() for chunk in row.retrieved_context):
            return RowScore.not_applicable(self.row_metrics, "There is no retrieved context.")
        answer = row.actual_answer or ""
        claimed = [number for number in read_numbers(answer) if not (number.spelt and number.value <= _SMALL)]
        invented = list(_unsupported(claimed, _given(row), _counts(answer))) if claimed else []
        spans = tuple(
            Span(Source.ACTUAL_ANSWER, number.start, number.end, note="unsupported number") for number in invented
        )[:MOST_NAMED]
        names = dict.fromkeys(quoted(answer[number.start : number.end], most=40) for number in invented)
        message = f"{listing(names, most=5)} {'stand' if len(names) > 1 else 'stands'} in no context." if names else ""
        return RowScore({"unsupported_numbers": float(bool(invented))}, Evidence(message, spans))


def _given(row: Row) -> set[float]:
    texts = (row.question or "", *row.expected_answers, *(chunk.content for chunk in row.retrieved_context))
    return {number.value for text in texts for number in read_numbers(text, marks=True)}


def _counts(answer: str) -> set[float]:
    """Return how many things an answer may list: its lines with a mark, and the parts of a sentence between commas."""
    lines = sum(bool(_LIST_MARK.match(line)) for line in answer.splitlines())
    commas = {float(part.count(",") + more) for part in re.split(r"[.:;\n]", answer) for more in (1, 2)}
    return commas | {float(lines)}


def _unsupported(claimed: Iterable[Number], given: set[float], counts: set[float]) -> Iterator[Number]:
    exact = given | {0.0}
    made = {round(value, 9) for value in _made(given)}
    for number in claimed:
        value = number.value
        if value in exact or round(value, 9) in made or (number.spelt and value in counts):
            continue
        if not any(_is_rounded(value, other, number.decimals) for other in given):
            yield number


def _made(given: set[float]) -> Iterator[float]:
    """Yield what conversions, sums and differences make of numbers."""
    for value in given:
        yield from (value * factor for factor in _CONVERSIONS)
        yield from (value / factor for factor in _CONVERSIONS)
    if len(given) <= MOST_COMBINED:
        ordered = sorted(given)
        for place, one in enumerate(ordered):
            for other in ordered[place:]:
                yield one + other
                yield other - one


def _is_rounded(value: float, other: float, decimals: int) -> bool:
    """Return whether a number is another one rounded to its decimals, or to its leading digits if it is whole."""
    if not math.isfinite(other) or not value:
        return False
    if decimals or abs(value) < 100:
        return abs(value - other) <= 0.5 * 10.0**-decimals + 1e-9
    digits = f"{abs(value):.0f}"
    zeros = len(digits) - len(digits.rstrip("0"))
    return abs(value - other) <= 0.5 * 10.0**zeros
