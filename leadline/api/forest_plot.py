"""A forest plot of means: each with its 95 % interval on a line, and its threshold, for matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from leadline.api.first_screen import label_of
from leadline.evaluators.ground import ErrorCode, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

INCHES_PER_MEAN: Final = 0.32
_SPREAD: Final = 0.6
"""Share of a metric's row over which its models are spread."""


def forest_plot(aggregates: DataFrame, metrics: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw means with their intervals.

    Args:
        aggregates: Means, with the columns of :data:`leadline.tasks.publish.exports.frames.AGGREGATES`.
        metrics: Keys of metrics or ids of evaluators; by default the primary metric of each evaluator.
        ax: Where to draw; a figure of its own by default.

    Raises:
        UsageError: matplotlib is not installed, or nothing was scored that could be drawn.
    """
    lines = _chosen(aggregates, metrics)
    pyplot = _pyplot()
    labels = list(dict.fromkeys(zip(lines["evaluator"], lines["metric"], strict=True)))
    models = list(dict.fromkeys(lines["model"]))
    if ax is None:
        height = 0.9 + INCHES_PER_MEAN * max(len(lines), len(labels) + 1)
        _, ax = pyplot.subplots(figsize=(7.5, height), layout="constrained")
    places = {label: place for place, label in enumerate(labels)}
    for number, model in enumerate(models):
        shift = _SPREAD * ((number + 0.5) / len(models) - 0.5)
        own = lines[lines["model"] == model]
        at = [places[label] + shift for label in zip(own["evaluator"], own["metric"], strict=True)]
        reach = [own["value"] - own["ci_low"], own["ci_high"] - own["value"]]
        sides = [side.clip(lower=0).fillna(0) for side in reach]
        ax.errorbar(own["value"], at, xerr=sides, fmt="o", capsize=3, label=_plain(model))
    for label, threshold in {label: _threshold(lines, label) for label in labels}.items():
        if threshold == threshold:  # not NaN
            ax.plot([threshold] * 2, [places[label] - 0.42, places[label] + 0.42], color="0.5", linestyle=":")
    ax.set_yticks(range(len(labels)), [_plain(label_of(*label)) for label in labels])
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlabel("mean with 95 % interval; dotted: threshold")
    ax.grid(axis="x", alpha=0.3)
    if len(models) > 1:
        ax.legend(title="model", fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
    else:
        ax.set_title(_plain(models[0]), fontsize="medium")
    return ax


def _chosen(aggregates: DataFrame, metrics: Sequence[str] | None) -> DataFrame:
    scored = aggregates[aggregates["value"].notna()]
    if metrics is None:
        lines = scored[scored["primary"]]
    else:
        both = scored["evaluator"] + "." + scored["metric"]
        lines = scored[scored["metric"].isin(metrics) | scored["evaluator"].isin(metrics) | both.isin(metrics)]
    if lines.empty:
        raise UsageError(
            "There is no mean to draw.",
            hint="Look at result.aggregates for what was measured, and at result.problems for what was not.",
            code=ErrorCode.CONFIG_OPTION,
        )
    return lines


def _threshold(lines: DataFrame, label: tuple[str, str]) -> float:
    evaluator, metric = label
    return float(lines[(lines["evaluator"] == evaluator) & (lines["metric"] == metric)]["threshold"].iloc[0])


def _plain(text: str) -> str:
    """Return a text that matplotlib does not take for a formula."""
    return text[:60].replace("$", r"\$")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError(
            "Plots need matplotlib, which is not installed.",
            hint="Install it: pip install 'leadline[plot]'",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from None
    return pyplot
