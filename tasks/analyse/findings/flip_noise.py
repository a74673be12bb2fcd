"""The part of a metric's flips that is the judge's own noise, as the problems of robustness tell and weigh it.

Three words say what is known of a metric that asks a judge: **changed**, if the flips net of its judge's noise are
above 0 with their whole interval; **not told from the judge's noise**, if the interval reaches 0, and its upper end is
what could hide; **not measured**, if no row was judged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, listing, nouns, percent, signed_percent
from leadline.tasks.analyse.findings.finding import MOST_ROWS, Finding
from leadline.tasks.db import records, sql
from leadline.tasks.policy.policy import Role

if TYPE_CHECKING:
    from leadline.tasks.analyse.findings.run_view import RunView

CHANGED: Final = "changed"
UNTOLD: Final = "not told from the judge's noise"
UNMEASURED: Final = "not measured"

SAME_REPLIES: Final = 20
"""Repeated verdicts that all rest on the same text from which on a cache is suspected."""

HOW_TO_MEASURE: Final = "--trials 2 --trial-rows auto"
"""Options that measure a judge's noise for little money."""


def noise_in_a_word(net_method: str | None, net_low: float | None) -> str:
    """Return what is known of the judge's noise in a flip rate; ``""`` where there can be none.

    Args:
        net_method: How the net rate was estimated.
        net_low: Lower end of its interval.
    """
    if net_method == "deterministic":
        return ""
    if net_low is None:
        return UNMEASURED
    return CHANGED if net_low > 0 else UNTOLD


def judged_flips(view: RunView) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the flip rates of metrics that ask a judge, all perturbations together, by metric and model."""
    return {
        (line["metric_id"], line["model_id"]): line for line in records(view.connection, sql("problems/judged_flips"))
    }


def untold(
    view: RunView, judged: Mapping[tuple[int, int], Mapping[str, Any]]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the metrics and models whose flips cannot be told from their judge's noise, which was measured.

    Args:
        judged: What :func:`judged_flips` returned.
    """
    return {
        key: line
        for key, line in judged.items()
        if line["n_passed_to_failed"]
        and noise_in_a_word(line["net_method"], line["net_low"]) == UNTOLD
        and view.role(line["metric_id"]) is not Role.INFORMATION
    }


def chance_to_worsen(lines: Sequence[Mapping[str, Any]], better: float) -> float:
    """Return the share of pairs that the judges' noise alone turns bad, at most.

    Half of what it flips turns bad. Where it was not measured, it turns as many good: no more than those that did.

    Args:
        lines: Flip rates of the metrics.
        better: Share of the pairs that turned good.
    """
    return max((better if line["noise"] is None else line["noise"] / 2 for line in lines), default=0.0)


def in_sentences(view: RunView, lines: Sequence[Mapping[str, Any]], confirmed: int) -> Iterator[str]:
    """Yield what is known of the judge's noise in a problem's flips.

    Args:
        lines: Flip rates of its metrics that ask a judge.
        confirmed: Pairs that turned bad and of which all trials of each row agree.
    """
    told = [line for line in lines if line["net"] is not None]
    if told:
        parts = (
            f"{percent(line['net'])} ({signed_percent(line['net_low'])} to {percent(line['net_high'])}) on "
            f"{view.evaluator_name(line['evaluator_id'])}"
            for line in told
        )
        yield (
            f"Net of the judge's own noise ({percent(max(line['noise'] for line in told))}), "
            f"{listing(parts, most=3)} of all pairs changed; {confirmed or 'none'} of those that turned bad "
            f"{nouns(confirmed, 'is', 'are')} confirmed by every trial."
        )
    if len(told) < len(lines):
        yield f"How much of it is the judge's own noise was not measured ({HOW_TO_MEASURE} does)."


def cached_problems(view: RunView) -> Iterator[Finding]:
    """Yield a note for each judge that samples its replies and gave the same ones in all trials, as a cache does."""
    for line in records(view.connection, sql("problems/cached_trials").format(most=MOST_ROWS, least=SAME_REPLIES)):
        evaluator_id = line["evaluator_id"]
        yield Finding(
            type="evaluation",
            kind="cached_trials",
            severity=Severity.LOW,
            fault="instrument",
            evaluator_id=evaluator_id,
            description=f"{view.evaluator_name(evaluator_id)}: {count(line['n'], 'repeated verdict')} rest on the very "
            "text of the first one, although the judge's temperature is above 0: the trials may be one cached reply. "
            "Then they say nothing of the judge's own noise.",
            actions="See whether a gateway between here and the judge caches replies, and switch that off.",
            attrs=view.attrs(evaluator_id=evaluator_id, n_rows=line["n"]),
            row_ids=line["row_ids"],
        )


def noise_problems(view: RunView, noisy: Mapping[tuple[int, int], Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield a note for each metric whose flips cannot be told from its judge's own changes of mind.

    Args:
        noisy: What :func:`untold` returned.
    """
    by_metric: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for (metric_id, _), line in noisy.items():
        by_metric[metric_id].append(line)
    for metric_id, lines in by_metric.items():
        metric = view.metrics[metric_id]
        worst = max(lines, key=lambda line: line["net_high"])
        n_worse, n_pairs = (sum(line[name] for line in lines) for name in ("n_passed_to_failed", "n_pairs"))
        yield Finding(
            type="robustness",
            kind="judge_noise",
            severity=Severity.LOW,
            fault="instrument",
            evaluator_id=metric["evaluator_id"],
            metric_id=metric_id,
            description=f"{view.evaluator_name(metric['evaluator_id'])} turned from passed to failed on {n_worse:,} of "
            f"{count(n_pairs, 'perturbed pair')}, {UNTOLD}: {percent(worst['rate'])} flip, "
            f"{percent(worst['noise'])} by the judge's own noise, net {signed_percent(worst['net'])} (95 % interval "
            f"{signed_percent(worst['net_low'])} to {percent(worst['net_high'])}). Up to "
            f"{percent(worst['net_high'])} of the answers could have changed.",
            actions="Add perturbed cases or use a steadier judge to tell weaknesses of the model from the judge's.",
            attrs=view.attrs(
                evaluator_id=metric["evaluator_id"],
                metric=metric,
                model_names=[view.model_name(line["model_id"]) for line in lines],
                n_pairs=n_pairs,
                n_passed_to_failed=n_worse,
                **{name: worst[name] for name in ("rate", "noise", "net", "net_low", "net_high", "net_method")},
            ),
        )
