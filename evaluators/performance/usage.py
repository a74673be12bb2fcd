"""Time, money and tokens that answers take: means and percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from leadline.evaluators.core import EvalContext, Params, Spec, register
from leadline.evaluators.data import (
    NO_EVIDENCE,
    Details,
    Evidence,
    Json,
    NotApplicable,
    Row,
    RowField,
    RowScore,
)
from leadline.evaluators.performance._percentiles import PercentileEvaluator, Sorted, mean_metric, percentile_metrics

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.ground import ModelRef


@register
class Latency(PercentileEvaluator):
    """Duration of an answer, in seconds: the mean, the median, and the 95th and 99th percentile.

    **Method.** A row's value is its ``duration_s``, as the dataset has it or ``collect`` measured it. ``latency`` is
    the mean. A percentile is the least duration that a share of the answers does not exceed, so always one that was
    measured (definition 1 of Hyndman and Fan). Its interval is made of order statistics: how many of n independent
    durations lie below the true percentile follows a binomial distribution, whatever the durations are distributed
    like. It holds the true percentile at least 95 times in 100. Where there are too few rows to bound a percentile from
    above, the interval has no upper end: fewer than 72 for the 95th, fewer than 368 for the 99th percentile. Copies of
    a case count for less, as in other intervals.

    **Budgets.** A policy's rule is a limit: ``[policy.rules."latency:latency_p95"]`` with ``role = "should"`` and
    ``threshold = 2.0`` fails the gate where the 95th percentile is surely above 2 seconds.

    **Edge cases.**

    * A row without a duration is not applicable; one whose host returned an error is unscored, since an error that
      comes soon is no fast answer.
    * A negative or infinite duration is unscorable.

    **Source.** Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages"; David and Nagaraja 2003, "Order
    Statistics", section 7.1, for the interval.
    """

    spec = Spec(
        id="latency",
        name="Latency",
        inputs=(RowField.DURATION_S,),
        metrics=(
            mean_metric("latency", "Mean duration of an answer, in seconds.", primary=True),
            *percentile_metrics("latency", "Latency", "durations, in seconds"),
        ),
        insight_type="performance",
        problem_type="performance",
        keywords=("speed", "duration", "response time", "percentile", "p95"),
        source="Hyndman and Fan 1996; David and Nagaraja 2003, section 7.1",
    )
    quantities = ("latency",)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the duration of a row."""
        return self.measured(row.duration_s, "duration")


@register
class Cost(PercentileEvaluator):
    """Price of an answer, in US dollars: the mean, the median, and the 95th and 99th percentile.

    **Method.** A row's value is its ``cost_usd``, as the dataset has it or ``collect`` was told. ``cost`` is the mean
    per answer; the details name the sum. A percentile is the least price that a share of the answers does not exceed
    (definition 1 of Hyndman and Fan). Its interval is made of order statistics, and has no upper end where there are
    too few rows to give one: fewer than 72 for the 95th, fewer than 368 for the 99th percentile.

    **Budgets.** A policy's rule is a limit: ``[policy.rules.cost]`` with ``role = "should"`` and ``threshold = 0.01``
    fails the gate where an answer surely costs more than a cent on average.

    **Edge cases.**

    * A row without a price is not applicable: it may have been free or not counted, and 0 says the one.
    * What a call cost that ended in an error counts too: it was paid.
    * A negative or infinite price is unscorable.

    **Source.** Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages"; David and Nagaraja 2003, "Order
    Statistics", section 7.1, for the interval.
    """

    spec = Spec(
        id="cost",
        name="Cost",
        inputs=(RowField.COST_USD,),
        metrics=(
            mean_metric("cost", "Mean price of an answer, in US dollars.", primary=True),
            *percentile_metrics("cost", "Cost", "prices of an answer, in US dollars"),
        ),
        insight_type="cost",
        problem_type="cost",
        keywords=("price", "budget", "dollars", "spending"),
        source="Hyndman and Fan 1996; David and Nagaraja 2003, section 7.1",
    )
    quantities = ("cost",)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the price of a row."""
        return self.measured(row.cost_usd, "price")

    def details(
        self, prepared: Mapping[str, Sorted], weights: npt.NDArray[np.float64], cases: Sequence[str]
    ) -> Details:
        """Return what all answers cost together."""
        prices = prepared["cost"]
        total = float(weights[prices.places] @ prices.values)
        return {"notes": [f"All {weights.sum():,.0f} answers with a price cost {total:,.6g} USD together."]}


class TokensParams(Params):
    """Parameters of the token counts."""

    tokenizer: str = Field(
        "",
        description="A tokenizer that counts the tokens of answers without a count of their own: a Hugging Face id "
        "or a directory; empty: such answers are not applicable.",
    )


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
            mean_metric("output_tokens", "Mean number of tokens received per answer.", primary=True),
            mean_metric("input_tokens", "Mean number of tokens sent per answer."),
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
        from leadline.evaluators.models.runtime import loading
        from leadline.evaluators.models.tokens import token_ids, tokenizer_from
        from leadline.evaluators.models.weights import locate

        (ref,) = self.models(ctx)
        folder = locate(ref, ctx.settings)
        with loading(ref):
            tokenizer = tokenizer_from(folder)
        return [len(ids) for ids in token_ids(tokenizer, texts)]
