"""Cost: what answers cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leadline.evaluators.core import INF, EvalContext, Metric, Spec, register
from leadline.evaluators.data import Details, Reason, Row, RowField, RowScore
from leadline.evaluators.performance._percentiles import PercentileEvaluator, Sorted, percentile_metrics

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
            Metric.lower(
                "cost", "Mean price of an answer, in US dollars.", range=(0.0, INF), threshold=None, primary=True
            ),
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
        usd = row.cost_usd
        if usd is None or not math.isfinite(usd) or usd < 0:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"{usd} is no price.")
        return RowScore({"cost": float(usd)}, payload=[float(usd)])

    def details(
        self, prepared: Mapping[str, Sorted], weights: npt.NDArray[np.float64], cases: Sequence[str]
    ) -> Details:
        """Return what all answers cost together."""
        prices = prepared["cost"]
        total = float(weights[prices.places] @ prices.values)
        return {"notes": [f"All {weights.sum():,.0f} answers with a price cost {total:,.6g} USD together."]}
