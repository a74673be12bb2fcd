"""Latency: how long answers take."""

from __future__ import annotations

import math

from leadline.evaluators.core import INF, EvalContext, Metric, Spec, register
from leadline.evaluators.data import Reason, Row, RowField, RowScore
from leadline.evaluators.performance._percentiles import PercentileEvaluator, percentile_metrics


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
            Metric.lower(
                "latency", "Mean duration of an answer, in seconds.", range=(0.0, INF), threshold=None, primary=True
            ),
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
        seconds = row.duration_s
        if seconds is None or not math.isfinite(seconds) or seconds < 0:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"{seconds} is no duration.")
        return RowScore({"latency": float(seconds)}, payload=[float(seconds)])
