"""Regular expression: does the answer match a pattern, as a whole, somewhere, or nowhere?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import quoted
from leadline.evaluators.text.conditions.patterns import PatternError, compiled

KEY = "regex"
"""Key of a row's metadata that holds its pattern."""


class RegexParams(Params):
    """Parameters of regex."""

    pattern: Annotated[
        str,
        Field(
            description="The pattern, in the syntax of Python's re; flags stand in it, as in (?i). A row's own, in its "
            "metadata under the key regex, goes before it."
        ),
    ] = ""
    match: Annotated[
        Literal["search", "whole", "absent"],
        Field(description="Where it must match: somewhere (search), the whole answer (whole), or nowhere (absent)."),
    ] = "search"

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        compiled(pattern)
        return pattern


@register
class Regex(RowEvaluator):
    """Matches the answer against a regular expression: one for all answers, or one of each row.

    **Method.** The pattern is given once (``--param 'regex.pattern=…'``) or stands in a row's metadata under the key
    ``regex``, for example in a column of that name. It means what it means to Python's ``re``. It must match somewhere
    in the answer (``re.search``), with ``match=whole`` the whole answer (``re.fullmatch``), with ``match=absent``
    nothing in it. The metric is the share of answers of which that holds; the evidence points at what was matched.

    **Edge cases.**

    * A row without a pattern is not applicable.
    * A parameter that is no pattern is refused before the run; a row with such metadata is unscored, and says why.
    * A pattern may take two seconds on an answer. A row on which it takes longer is unscored (``timeout``), and a
      pattern that ran out of time again and again is not tried further, as in ``text_matching``.
    * White space and line feeds around the answer count: ``whole`` fails on a line feed at its end.

    **Source.** Python's module ``re``; time limits by the package ``regex``.
    """

    spec = Spec(
        id="regex",
        name="Regular Expression",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metadata=(KEY,),
        metrics=(
            Metric.higher(
                "regex",
                "Share of answers that match the pattern as they should.",
                name="Matches the pattern",
                share=True,
            ),
        ),
        keywords=("rule-based", "pattern", "regexp", "match"),
        source="https://docs.python.org/3/library/re.html",
    )
    parameters = RegexParams
    params: RegexParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Match one answer."""
        own = row.metadata.get(KEY)
        pattern = self.params.pattern if own is None or own == "" else own
        if not isinstance(pattern, str):
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The row's pattern is no text.")
        if not pattern:
            return RowScore.not_applicable(
                self.row_metrics, "There is no pattern: give regex.pattern, or a column regex."
            )
        try:
            ready = compiled(pattern)
        except PatternError as error:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The row's pattern is invalid: {error}.")
        answer = row.actual_answer or ""
        with ctx.regex_budget.waiting(pattern) as seconds:
            find = ready.fullmatch if self.params.match == "whole" else ready.search
            found = find(answer, timeout=seconds)
        if found is None:
            good = self.params.match == "absent"
            return RowScore({"regex": float(good)}, Evidence("" if good else f"Nothing matches {quoted(pattern)}."))
        span = Span(Source.ACTUAL_ANSWER, found.start(), found.end(), note=quoted(pattern, most=60))
        unwanted = self.params.match == "absent"
        return RowScore(
            {"regex": float(not unwanted)},
            Evidence(f"The answer has what {quoted(pattern)} forbids." if unwanted else "", (span,)),
        )
