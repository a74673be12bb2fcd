"""Time, money and tokens that answers take: means, and percentiles with exact intervals from order statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from pydantic import Field

from leadline.evaluators.core import INF, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import (
    NO_EVIDENCE,
    Details,
    Evidence,
    Json,
    NotApplicable,
    Reason,
    Row,
    RowField,
    RowScore,
)
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.tokens import token_ids, tokenizer_from
from leadline.evaluators.models.weights import chosen, locate

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.ground import ModelRef


LEVELS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
"""The percentiles, by the end of their metrics' keys."""

TAIL: Final = 0.025
"""Chance that either end of an interval is wrong."""

_ROUNDING: Final = 1e-9
"""Relative error up to which a cumulated weight counts as reached: weights may be thirds."""


class Sorted(NamedTuple):
    """The values of one quantity, in ascending order.

    Attributes:
        values: The distinct values.
        places: Where each stands among the payloads.
    """

    values: npt.NDArray[np.float64]
    places: npt.NDArray[np.intp]


def ascending(values: Sequence[float | None]) -> Sorted:
    """Return the values that there are in ascending order.

    Args:
        values: One for each payload; ``None`` for a payload without one.
    """
    places = np.array([place for place, value in enumerate(values) if value is not None], dtype=np.intp)
    found = np.array([value for value in values if value is not None], dtype=np.float64)
    order = np.argsort(found, kind="stable")
    return Sorted(found[order], places[order])


def percentile(data: Sorted, weights: npt.NDArray[np.float64], level: float) -> npt.NDArray[np.float64]:
    """Return the least value that a share of the rows does not exceed (the inverse of the distribution function).

    That is the first of the nine definitions of Hyndman and Fan (1996), NumPy's ``inverted_cdf``: always a value that
    was measured.

    Args:
        data: The values.
        weights: Array of shape ``(b, n)``: how often each payload counts.
        level: The share, in (0, 1).

    Returns:
        Array of shape ``(b,)``; NaN where nothing counts.
    """
    reached = np.cumsum(weights[:, data.places], axis=1)
    if not reached.shape[1]:
        return np.full(len(weights), np.nan)
    total = reached[:, -1]
    place = (reached < (level * total * (1 - _ROUNDING))[:, np.newaxis]).sum(axis=1)
    return np.where(total > 0, data.values[np.minimum(place, len(data.values) - 1)], np.nan)


def ranks(level: float, n: int) -> tuple[int, int]:
    """Return the ranks, from 1, of the order statistics that enclose a percentile with a chance of 95 % or more.

    How many of ``n`` independent values lie below the true percentile follows a binomial distribution, whatever the
    values are distributed like. Either rank is the one nearest to the middle that is wrong at most 2.5 % of the time; 0
    and ``n + 1`` stand for none, as the greatest of 50 values may well lie below the 95th percentile.

    Args:
        level: The percentile as a share, in (0, 1).
        n: Number of values, at least 1.
    """
    return _quantile(TAIL, n, level), _quantile(1 - TAIL, n, level) + 1


def _quantile(chance: float, n: int, level: float) -> int:
    """Return the least number that a binomial variable does not exceed with some chance."""
    from scipy.special import bdtr, bdtrik

    number: int = min(n, max(0, math.ceil(bdtrik(chance, n, level))))
    while number and bdtr(number - 1, n, level) >= chance:
        number -= 1
    while number < n and bdtr(number, n, level) < chance:
        number += 1
    return number


def interval(data: Sorted, weights: npt.NDArray[np.float64], level: float, size: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile; an end that the rows cannot show is 0 or infinite.

    Args:
        data: The values, none below 0.
        weights: Array of shape ``(n,)``: how many rows have each payload.
        level: The percentile as a share.
        size: How many independent rows they are worth; ranks are stretched where that is fewer than there are.

    Returns:
        The two ends, ``None`` without a value.
    """
    reached = np.cumsum(weights[data.places])
    if not len(reached):
        return None
    total = float(reached[-1])
    independent = max(1, round(min(size, total)))
    low, high = (rank * total / independent for rank in ranks(level, independent))

    def at(rank: float) -> float:
        place = int(np.searchsorted(reached, rank * (1 - _ROUNDING)))
        return float(data.values[place]) if place < len(data.values) else INF

    return 0.0 if low <= 0 else at(low), at(high)


def mean_metric(quantity: str, text: str, *, primary: bool = False) -> Metric:
    """Return the metric of a quantity's mean, of which less is better."""
    return Metric.lower(quantity, text, range=(0.0, INF), threshold=None, primary=primary)


def percentile_metrics(quantity: str, name: str, what: str) -> tuple[Metric, ...]:
    """Return the dataset-level metrics of a quantity's percentiles.

    Args:
        quantity: Beginning of the keys.
        name: Beginning of the names.
        what: What is measured, as it reads after "the".
    """
    texts = {
        "p50": f"Median of the {what}.",
        "p95": f"95th percentile of the {what}: one in twenty answers takes more.",
        "p99": f"99th percentile of the {what}: one in a hundred answers takes more.",
    }
    return tuple(
        Metric.lower(
            f"{quantity}_{end}", text, name=f"{name} {end}", range=(0.0, INF), threshold=None, dataset_level=True
        )
        for end, text in texts.items()
    )


class PercentileEvaluator(RowEvaluator):
    """The base of evaluators that have percentiles of one or more quantities; a payload holds one number for each."""

    quantities: tuple[str, ...]
    """Beginnings of the metrics' keys, in the order of a payload's numbers."""

    def measured(self, value: float | None, what: str) -> RowScore:
        """Return the score of a row with one quantity; a negative or infinite one is unscorable.

        Args:
            what: What it is called in a message.
        """
        if value is None or not math.isfinite(value) or value < 0:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"{value} is no {what}.")
        return RowScore({self.quantities[0]: float(value)}, payload=[float(value)])

    def prepare(self, payloads: Sequence[Json]) -> Mapping[str, Sorted]:
        """Return each quantity's values in ascending order."""
        numbers = cast("Sequence[Sequence[float | None]]", payloads)
        return {quantity: ascending([one[place] for one in numbers]) for place, quantity in enumerate(self.quantities)}

    def aggregate(
        self, payloads: Mapping[str, Sorted], weights: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the percentiles for each weighting of the rows."""
        return {
            f"{quantity}_{end}": percentile(data, weights, level)
            for quantity, data in payloads.items()
            for end, level in LEVELS.items()
        }

    def intervals(
        self, prepared: Mapping[str, Sorted], weights: npt.NDArray[np.float64], size: float
    ) -> dict[str, tuple[float, float] | None]:
        """Return the exact intervals of the percentiles."""
        return {
            f"{quantity}_{end}": interval(data, weights, level, size)
            for quantity, data in prepared.items()
            for end, level in LEVELS.items()
        }


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
        (ref,) = self.models(ctx)
        folder = locate(ref, ctx.settings)
        with loading(ref):
            tokenizer = tokenizer_from(folder)
        return [len(ids) for ids in token_ids(tokenizer, texts)]
