"""JSON validity: can a program read the answer?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import DataKind, Evidence, Row, RowField, RowScore, Source, Span
from leadline.evaluators.structured._json_answers import Where, kind_of, parse_answer


class JsonValidParams(Params):
    """Parameters of json_valid."""

    where: Annotated[
        Where,
        Field(
            description="Where JSON may stand: whole (nothing else is there), fenced (in a fence of Markdown too), "
            "anywhere (in the midst of prose too)."
        ),
    ] = "whole"
    kind: Annotated[
        Literal["any", "object", "array", "object_or_array"], Field(description="What the JSON value must be.")
    ] = "object_or_array"
    only_expected: Annotated[
        bool,
        Field(description="Look only at rows whose expected answer is JSON; so it is where nobody named json_valid."),
    ] = False


@register
class JsonValid(RowEvaluator):
    r"""Reads the answer as JSON.

    **Method.** The answer is parsed strictly by RFC 8259, and must be an object or an array (``kind`` can ask for
    something else). By default nothing but JSON may be there: a program that reads the answer would trip over prose
    or a fence of Markdown too. Where yours takes fences away, say ``where=fenced``; where it looks for the JSON in
    prose, ``where=anywhere``. The metric is the share of answers that are valid; the message says in which line and
    column reading stopped.

    **Edge cases.**

    * ``NaN``, trailing commas, comments and single quotes are no JSON; nor are numbers that no double can hold
      (``1e400``), half surrogates (``"\ud800"``), a byte order mark, and more than 1,024 levels: parsers differ there.
    * An object that has a key twice is valid, as in RFC 8259.
    * An empty answer is not valid.

    **Source.** RFC 8259, The JavaScript Object Notation (JSON) Data Interchange Format; parsed by orjson.
    """

    spec = Spec(
        id="json_valid",
        name="JSON Validity",
        family="structured",
        origin="leadline",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.EXPECTED_ANSWER}),
        metrics=(
            Metric.higher(
                "json_valid", "Share of answers that a strict parser of JSON reads.", name="Valid JSON", share=True
            ),
        ),
        suits=(DataKind.JSON,),
        keywords=("rule-based", "json", "parse", "is-json", "structured output"),
        source="https://www.rfc-editor.org/rfc/rfc8259",
    )
    parameters = JsonValidParams
    params: JsonValidParams
    unnamed: ClassVar[Mapping[str, Any]] = {"only_expected": True}

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Parse one answer."""
        if self.params.only_expected and not any(map(_is_json, row.expected_answers)):
            return RowScore.not_applicable(self.row_metrics, "The expected answer is no JSON.")
        answer = row.actual_answer or ""
        parsed = parse_answer(answer, self.params.where)
        if parsed.fault:
            at = max(0, min(parsed.at, len(answer) - 1))  # where the rest is missing, the last character
            place = (Span(Source.ACTUAL_ANSWER, at, at + 1, note="not JSON from here"),) if answer else ()
            return RowScore({"json_valid": 0.0}, Evidence(f"The answer is no JSON: {parsed.fault}.", place))
        kind = kind_of(parsed.value)
        good = self.params.kind == "any" or kind in self.params.kind.split("_or_")
        message = "" if good else f"The answer is valid JSON, but of kind {kind}."
        return RowScore({"json_valid": float(good)}, Evidence(message))


def _is_json(expected: str) -> bool:
    return kind_of(parse_answer(expected, "whole").value) in ("object", "array")
