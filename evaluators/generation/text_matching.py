"""Text matching: does the answer contain what a condition demands?"""

from __future__ import annotations

from pydantic import Field

from leadline.evaluators.core import (
    EvalContext,
    Params,
    RowEvaluator,
    Spec,
    boolean_metrics,
    register,
    unparseable,
    verdict,
)
from leadline.evaluators.data import Evidence, Flag, Reason, Row, RowField, RowScore, Severity
from leadline.evaluators.text.conditions import (
    ConditionError,
    ConditionOutcome,
    ConditionPart,
    Node,
    Or,
    Text,
    answer_spans,
    context_spans,
    evaluate,
    failure,
    joined,
    parse,
    quote,
)


class TextMatchingParams(Params):
    """Parameters of text matching."""

    evaluate_retrieved_context: bool = Field(
        False, description="Check the retrieved context too; a row fails when its context does."
    )
    default_to_expected_answer: bool = Field(
        False, description="Without a condition, ask for one of the expected answers as a substring of the answer."
    )


@register
class TextMatching(RowEvaluator):
    """Checks an answer, and if asked its retrieved context, against the case's condition.

    **Method.** The condition is a boolean expression of strings and regular expressions, such as
    ``("Brazil" OR "brazil") AND regexp("15,?969 [Mm]illion") AND NOT "Real"``: ``NOT`` binds tighter than ``AND``,
    ``AND`` tighter than ``OR``. A string matches as a case-sensitive substring, a pattern as Python's ``re.search``
    without flags (``(?i)`` inside the pattern is fine; ``^`` and ``$`` are the limits of the full text). A row passes
    when the condition holds for the answer and, with ``evaluate_retrieved_context``, also for the retrieved chunks
    joined by one space. The metrics are the shares of rows. Of a row that fails, the message names the part of
    the condition that did not match.

    **Edge cases.**

    * A row without a condition is not applicable. With ``default_to_expected_answer`` it must contain one of the
      expected answers, as the reference does by itself; a row that has neither is unscored.
    * A row without retrieved context (a plain language model) is judged by its answer alone.
    * An empty answer is an answer: it fails ``"x"`` and passes ``NOT "x"``.
    * A condition that does not parse is refused when the dataset is loaded. Where rows come from elsewhere, such a
      row counts as a parsing failure, and neither passes nor fails.
    * The patterns of a condition may take two seconds on a text, all together, and as many again on the retrieved
      context. A row on which they take longer is unscored (``timeout``). A condition that ran out of time on three
      rows is not tried on further ones, which say so. Each process of a run counts for itself: once it has lost 20
      seconds in this way, a condition that ran out of time before has 0.05 seconds; once it has lost five minutes,
      every condition has 0.05 seconds, and running out of them once is enough. Another run starts afresh.
    * The reference's example ``regexp("^$Brazil revenue was 15,969 million$")`` can match no text: ``$`` ends it.

    **Source.** H2O Sonar / Eval Studio, evaluator reference, "Text Matching Evaluator".
    """

    spec = Spec(
        id="text_matching",
        name="Text Matching Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER, RowField.CONDITION),
        optional=frozenset({RowField.RETRIEVED_CONTEXT}),
        also_reads=(RowField.EXPECTED_ANSWER,),
        metrics=boolean_metrics(
            ("model_passes", "Model passes"),
            ("model_failures", "Model failures"),
            ("model_retrieval_failures", "Model retrieval failures"),
            ("model_generation_failures", "Model generation failures"),
            ("model_parse_failures", "Model parse failures"),
            what="required and unwanted text",
        ),
        leaderboard="bool",
        keywords=("rule-based", "deterministic", "condition"),
        source="https://h2oai.github.io/h2o-sonar/",
    )
    parameters = TextMatchingParams
    params: TextMatchingParams

    @property
    def required(self) -> tuple[RowField, ...]:
        """The answer, and the condition unless the expected answer may stand in for it."""
        return (RowField.ACTUAL_ANSWER,) if self.params.default_to_expected_answer else self.spec.required

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that the parameters ask for."""
        unread = set()
        if not self.params.default_to_expected_answer:
            unread.add(RowField.EXPECTED_ANSWER)
        if not self.params.evaluate_retrieved_context:
            unread.add(RowField.RETRIEVED_CONTEXT)
        return tuple(field for field in self.spec.reads if field not in unread)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Check one row."""
        condition = row.condition or ""
        try:
            node = parse(condition) if condition.strip() else self._expected(row)
        except ConditionError as error:
            return unparseable(self.metrics, f"The condition does not parse: {error}.")
        if node is None:
            return RowScore.unscored(
                self.row_metrics, Reason.UNSCORABLE, "The case has neither a condition nor an expected answer."
            )
        condition = condition if condition.strip() else str(node.source)
        with ctx.regex_budget.waiting(condition) as seconds:
            answer = evaluate(node, row.actual_answer or "", timeout=seconds)
            context = None
            if self.params.evaluate_retrieved_context and row.retrieved_context:
                context = evaluate(node, joined(row.retrieved_context), timeout=seconds)
        return self._scored(row, condition, answer, context)

    def _expected(self, row: Row) -> Node | None:
        texts = [text for text in row.expected_answers if text.strip()]
        if not texts or not self.params.default_to_expected_answer:
            return None
        operands = tuple(Text(text, ConditionPart(quote(text))) for text in texts)
        return operands[0] if len(operands) == 1 else Or(operands, ConditionPart(" OR ".join(map(quote, texts))))

    def _scored(self, row: Row, condition: str, answer: ConditionOutcome, context: ConditionOutcome | None) -> RowScore:
        retrieval = context is not None and not context.matched
        messages = [failure("The answer", condition, answer)]
        spans = list(answer_spans(answer))
        if context is not None:
            messages.append(failure("The retrieved context", condition, context))
            spans += context_spans(context, row.retrieved_context)
        message = " ".join(filter(None, messages))
        flags = (Flag("retrieval", Severity.MEDIUM, message),) if retrieval and answer.matched else ()
        return RowScore(
            verdict(self.metrics, generation=not answer.matched, retrieval=retrieval),
            Evidence(message, tuple(spans)),
            flags,
        )
