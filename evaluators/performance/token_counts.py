"""Tokens: the text that goes into a model and comes out of it, as it is billed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from leadline.evaluators.core import INF, Metric, Params, Spec, register
from leadline.evaluators.data import NO_EVIDENCE, Evidence, Json, NotApplicable, Row, RowField, RowScore
from leadline.evaluators.performance._percentiles import PercentileEvaluator, percentile_metrics

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext
    from leadline.evaluators.ground import ModelRef


class TokensParams(Params):
    """Parameters of the token counts."""

    tokenizer: Annotated[
        str,
        Field(
            description="A tokenizer that counts the tokens of answers without a count of their own: a Hugging Face id "
            "or a directory; empty: such answers are not applicable."
        ),
    ] = ""


def _metric(key: str, name: str, text: str, *, primary: bool = False) -> Metric:
    return Metric(key, name, False, range=(0.0, INF), threshold=None, primary=primary, description=text)


@register
class Tokens(PercentileEvaluator):
    """Tokens sent and received per answer: the means, the medians, and the 95th and 99th percentiles.

    **Method.** The values of a row are its ``output_tokens`` and ``input_tokens``, as the provider counted them; the
    two first metrics are their means. A percentile is the least number that a share of the answers does not exceed
    (definition 1 of Hyndman and Fan), with an interval of order statistics, which has no upper end where there are too
    few rows to give one: fewer than 72 for the 95th, fewer than 368 for the 99th percentile.

    With the parameter ``tokenizer`` the tokens of an answer that has no count are counted with that tokenizer, and the
    row's evidence says so: another model's tokenizer would count others. What was sent is never estimated, since the
    dataset does not hold all of the prompt.

    **Edge cases.**

    * An answer without a count is not applicable, unless a tokenizer is named.
    * A row without ``input_tokens`` has no value for what was sent.

    **Source.** Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages"; David and Nagaraja 2003, "Order
    Statistics", section 7.1, for the interval.
    """

    spec = Spec(
        id="tokens",
        name="Tokens",
        inputs=(RowField.INPUT_TOKENS, RowField.OUTPUT_TOKENS),
        optional=frozenset({RowField.INPUT_TOKENS}),
        metrics=(
            _metric("output_tokens", "Output tokens", "Mean number of tokens received per answer.", primary=True),
            _metric("input_tokens", "Input tokens", "Mean number of tokens sent per answer."),
            *percentile_metrics("output_tokens", "Output tokens", "tokens received per answer"),
            *percentile_metrics("input_tokens", "Input tokens", "tokens sent per answer"),
        ),
        insight_type="performance",
        problem_type="performance",
        keywords=("token count", "usage", "prompt tokens", "completion tokens"),
        source="Hyndman and Fan 1996; David and Nagaraja 2003, section 7.1",
    )
    parameters = TokensParams
    params: TokensParams
    quantities = ("output_tokens", "input_tokens")

    @property
    def required(self) -> tuple[RowField, ...]:
        """The number of tokens received, or the answer where they can be counted."""
        return (RowField.ACTUAL_ANSWER,) if self.params.tokenizer else super().required

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The counts, and the answer where a tokenizer counts its tokens."""
        return (RowField.ACTUAL_ANSWER, *super().reads) if self.params.tokenizer else super().reads

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the tokenizer, if one is named."""
        if not self.params.tokenizer:
            return ()
        from leadline.evaluators.models.weights import chosen

        return (chosen(self.params.tokenizer, "tokenizer", ctx.settings),)

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers; a tokenizer counts by what it is, not by how it was named."""
        out = super().identity(ctx)
        out["params"] = {name: value for name, value in self.params.identity().items() if name != "tokenizer"}
        return out

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Count the tokens of all answers that have no count at once, if a tokenizer is named.

        Raises:
            ModelUnavailable: The tokenizer is not here.
        """
        missing = [row.actual_answer or "" for row in rows if row.output_tokens is None]
        if not missing or not self.params.tokenizer:
            return super().score(rows, ctx)
        counted = dict(zip(missing, self._counted(missing, ctx), strict=True))
        return [
            self._guarded(
                row,
                ctx,
                lambda row, _: (
                    self._scored(row, row.output_tokens)
                    if row.output_tokens is not None
                    else self._scored(row, counted[row.actual_answer or ""], estimated=True)
                ),
            )
            for row in rows
        ]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the counts of a row."""
        return self._scored(row, row.output_tokens)

    def _scored(self, row: Row, received: int | None, *, estimated: bool = False) -> RowScore:
        if received is None:
            return RowScore.not_applicable(self.row_metrics, "The answer has no number of tokens.")
        sent = row.input_tokens
        unknown = NotApplicable("The row does not say how many tokens were sent.")
        return RowScore(
            {"output_tokens": float(received), "input_tokens": unknown if sent is None else float(sent)},
            evidence=Evidence(f"Counted with the tokenizer {self.params.tokenizer}, not by the provider.")
            if estimated
            else NO_EVIDENCE,
            payload=[received, sent],
        )

    def _counted(self, texts: Sequence[str], ctx: EvalContext) -> list[int]:
        from leadline.evaluators.models.checkpoints import token_ids, tokenizer_from
        from leadline.evaluators.models.runtime import loading
        from leadline.evaluators.models.weights import locate

        (ref,) = self.models(ctx)
        folder = locate(ref, ctx.settings)
        with loading(ref):
            tokenizer = tokenizer_from(folder)
        return [len(ids) for ids in token_ids(tokenizer, texts)]
