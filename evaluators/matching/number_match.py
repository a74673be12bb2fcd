"""Number match: does the answer give the expected number, within a tolerance, however it is written?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import listing, quoted
from leadline.evaluators.text.quantities import Decimal, Quantity, is_denied, quantities, without_marks

MOST_GIVEN: Final = 10_000
"""Numbers of an answer that are compared."""

MOST_WANTED: Final = 100
"""Numbers of an expected answer that are compared."""


_REFERENCE: Final = re.compile(
    r"(?i)\((?:see|cf\.?|section|sec\.|chapter|fig\.|figure|table|page|p\.|pp\.|source|siehe|vgl\.|voir)\s[^()]{1,80}\)"
    r"|,\s(?:see|cf\.?)\s(?:section|chapter|figure|table|page)\s\d[\d.]{0,12}"
    r"|\([^()\d]{1,80}\set al\.?,?\s(?:19|20)\d\d[a-z]?\)"
    r"|\[\^\d{1,3}\]|【[^】]{1,80}】"
)


class NumberMatchParams(Params):
    """Parameters of number_match."""

    relative_tolerance: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Allowed difference as a share of the expected number: 0.01 is 1 %. Without one whole numbers "
        "must be equal, and others may differ by a millionth.",
    )
    absolute_tolerance: float = Field(
        0.0, ge=0, description="Allowed difference as a number; the larger of the two tolerances counts."
    )
    which: Literal["any", "last", "only"] = Field(
        "any",
        description="Which numbers of the answer count: any of them, the last one (as after a calculation), or "
        "only one may be there.",
    )
    decimal: Decimal = Field(
        "point", description="What stands before the decimals: a point (1,234.5) or a comma (1.234,5)."
    )
    only_numbers: bool = Field(
        False,
        description="Look only at rows of which an expected answer is a number and nothing else but its unit; so "
        "it is where nobody named number_match.",
    )
    units: bool = Field(
        True, description="Units and currencies of both numbers count: 5 km is 5000 m and is not 5 miles."
    )


@register
class NumberMatch(RowEvaluator):
    """Reads the numbers of answer and expected answer, and compares them within a tolerance.

    **Method.** Numbers are read as people write them: sign, currency, thousands separators (``1,234`` ``1 234``
    ``1'234`` ``12,34,567``), decimals, exponents, ``½`` and ``1/2``, words ("twelve" in eight languages), *thousand*,
    *million*, *billion* and their short forms, percent, and units. Whole numbers are equal to the last digit or they
    are not; of others ``a`` is the expected ``e`` if ``|a - e| <= max(relative_tolerance * |e|, absolute_tolerance)``.
    Every number of the expected answer must stand in the answer; of several expected answers one suffices. With
    ``which=last`` the answer's last number must be the expected answer's last, with ``which=only`` it must be the
    answer's only one.

    **Edge cases.**

    * Units count where both numbers have one: ``5 km`` is ``5000 m``, not ``5 miles``, ``$5`` is not ``€5``, and signs
      that look like units ("20 rpm") must be the same. A unit that only one of them has is not compared, nor are nouns
      ("15 people" and "15 guests").
    * ``12 %`` is ``12 %``, ``0.12`` and ``12``, as expected answers often leave the sign out.
    * Where a comma is the decimal sign, set ``decimal=comma``: else ``1,5`` is read as the two numbers 1 and 5.
    * Marks of citations and lists ("[3]", "2.") and references ("(see section 4.2)") are no numbers of an answer, and
      a number that "not" stands right before is denied. ``1/2`` is a half, so ``8/10`` is not ``8``.
    * An expected answer without a number is passed over; a row without another one is not applicable. An answer without
      a number is wrong: 0.
    * A date is read as three numbers; compare dates with ``json_fields`` or as texts.

    **Source.** Answer extraction of GSM8K (Cobbe et al. 2021), with the tolerance of Python's ``math.isclose``.
    """

    spec = Spec(
        id="number_match",
        name="Number Match",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "number_match", "Share of answers that give the expected number, within the tolerance.", share=True
        ),
        suits=(DataKind.NUMBERS,),
        version="2",
        keywords=("rule-based", "numeric", "tolerance", "math", "gsm8k", "units"),
        source="Cobbe et al. 2021, https://arxiv.org/abs/2110.14168",
    )
    parameters = NumberMatchParams
    params: NumberMatchParams
    unnamed: ClassVar[Mapping[str, Any]] = {"only_numbers": True}

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare the numbers of one row."""
        decimal = self.params.decimal
        wanted = [
            found
            for text in row.expected_answers
            if (found := list(islice(quantities(text, decimal), MOST_WANTED + 1)))
            and (not self.params.only_numbers or _is_number(text, found))
        ]
        if not wanted:
            return RowScore.not_applicable(self.row_metrics, "No expected answer holds a number.")
        given = list(islice(_stated(row.actual_answer or "", decimal), MOST_GIVEN + 1))
        if len(given) > MOST_GIVEN or max(map(len, wanted)) > MOST_WANTED:
            message = (
                f"More than {MOST_GIVEN:,} numbers in an answer, or {MOST_WANTED} in an expected one, are not compared."
            )
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        for expected in wanted:
            matched = self._matched(expected, given)
            if matched:
                spans = tuple(Span(Source.ACTUAL_ANSWER, one.start, one.end) for one in matched)
                return RowScore({"number_match": 1.0}, Evidence(spans=spans))
        text = row.actual_answer or ""
        shown = listing([quoted(text[one.start : one.end], most=40) for one in given]) if given else "no number"
        values = " or ".join(" and ".join(f"{one.value:.10g}" for one in expected[:8]) for expected in wanted[:4])
        return RowScore({"number_match": 0.0}, Evidence(f"Expected was {values}; the answer gives {shown}."))

    def _matched(self, expected: list[Quantity], given: list[Quantity]) -> list[Quantity]:
        """Return the answer's numbers that are the expected ones; none unless all are there."""
        if self.params.which == "only" and len(given) != 1:
            return []
        if self.params.which == "last":
            expected, given = expected[-1:], given[-1:]
        matched = []
        for one in expected:
            match = next((other for other in given if self._equal(other, one)), None)
            if match is None:
                return []
            matched.append(match)
        return matched

    def _equal(self, given: Quantity, expected: Quantity) -> bool:
        params = self.params
        return given.within(
            expected, relative=params.relative_tolerance, absolute=params.absolute_tolerance, units=params.units
        )


def _is_number(text: str, found: list[Quantity]) -> bool:
    """Return whether a text is a number and nothing else but a word behind it: what it counts."""
    return len(found) == 1 and not text[: found[0].start].strip() and len(text[found[0].end :].split()) <= 1


def _stated(text: str, decimal: Decimal) -> Iterator[Quantity]:
    """Yield the numbers that an answer states: not its citations, references and denials, unless it is nothing else."""
    plain = _REFERENCE.sub(lambda found: " " * len(found[0]), without_marks(text))
    stated = quantities(plain if plain.strip() else text, decimal)
    return (quantity for quantity in stated if not is_denied(text, quantity))
