"""Insights that compare models: best and worst by metric, retrieval, time and cost, and the one a judge prefers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leadline.evaluators.ground import count, listing, number, percent
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.analyse.findings.finding import RETRIEVAL, Finding, RunView
from leadline.tasks.analyse.pair_records import JudgedPair, model_strengths, read_pairs
from leadline.tasks.db import lines_shown, records, sql
from leadline.tasks.statistics.bounded_mean import CONFIDENCE, Mean, mean_of_clusters
from leadline.tasks.statistics.bradley_terry import Strength
from leadline.tasks.statistics.statistics import Differences, differ

_UNSURE: Final = "Add test cases before choosing between these models, or choose by cost and time."


@dataclass(frozen=True, slots=True)
class Lead:
    """The models at one end of a metric.

    Attributes:
        metric: The metric that stands for the group.
        others: Further metrics of the evaluator on which the same models stand at this end.
        models: The models, more than one if they share the value.
        rest: The other models, nearest first.
        best: Whether it is the good end.
    """

    metric: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...]
    models: tuple[int, ...]
    rest: tuple[int, ...]
    best: bool


def best_and_worst(view: RunView) -> Iterator[Finding]:
    """Yield, for each evaluator, its best and its worst models and whether chance could have put them there.

    Of a pass/fail evaluator the primary metric counts, of others every metric; metrics with the same best models are
    merged. There is none for a single model, or where all have the same value.
    """
    leads = [
        lead for evaluator_id in view.evaluators for best in (True, False) for lead in _leads(view, evaluator_id, best)
    ]
    paired = _paired(view, leads)
    for lead in leads:
        yield _comparison(view, lead, paired)


def _leads(view: RunView, evaluator_id: int, best: bool) -> Iterator[Lead]:
    metrics = view.metrics_of(evaluator_id)
    if view.evaluators[evaluator_id]["leaderboard"] == "bool":
        metrics = metrics[:1]
    groups: defaultdict[tuple[int, ...], list[tuple[Mapping[str, Any], tuple[int, ...]]]] = defaultdict(list)
    for metric in metrics:
        ranked = _ranked(view, metric, list(view.models), first_is_highest=metric["higher_is_better"] is best)
        if ranked:
            groups[ranked[0]].append((metric, ranked[1]))
    for models, found in groups.items():
        (first, rest), *more = found
        yield Lead(first, tuple(other for other, _ in more), models, rest, best)


def _ranked(
    view: RunView, metric: Mapping[str, Any], models: Sequence[int], *, first_is_highest: bool
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the models at one end and the others, nearest first; ``None`` with fewer than two values or all equal."""
    values = {
        model: aggregate["value"]
        for model in models
        if (aggregate := view.aggregates.get((metric["metric_id"], model))) and aggregate["value"] is not None
    }
    if len(set(values.values())) < 2:
        return None
    end = max(values.values()) if first_is_highest else min(values.values())
    rest = sorted((model for model in values if values[model] != end), key=values.__getitem__, reverse=first_is_highest)
    return tuple(model for model in values if values[model] == end), tuple(rest)


def _by_rows(metric: Mapping[str, Any]) -> bool:
    """Return whether a model's value is the mean of its rows', so that models can be compared row by row."""
    return not metric["dataset_level"] and not metric["pooled"]


def _paired(view: RunView, leads: Sequence[Lead]) -> dict[tuple[int, int, int], Differences]:
    """Return the differences between each leading model and the others, by metric, leader and other model."""
    wanted = sorted({(lead.metric["metric_id"], lead.models[0]) for lead in leads if _by_rows(lead.metric)})
    if not wanted:
        return {}
    connection = view.connection
    metric_ids, model_ids = zip(*wanted, strict=True)
    connection.register("families", perturbation_clusters(connection))
    with lines_shown(connection, "leaders", {"metric_id": metric_ids, "model_id": model_ids}):
        lines = records(connection, sql("insights/paired"))
    connection.unregister("families")
    out = {}
    for line in lines:
        key = line.pop("metric_id"), line.pop("leader"), line.pop("model_id")
        out[key] = Differences(**line)
    return out


def _comparison(view: RunView, lead: Lead, paired: Mapping[tuple[int, int, int], Differences]) -> Finding:
    spec = view.spec(lead.metric["evaluator_id"])
    board = view.evaluators[lead.metric["evaluator_id"]]["leaderboard"] == "bool"
    word = {
        (True, True): "most accurate",
        (True, False): "least accurate",
        (False, True): "best",
        (False, False): "worst",
    }[board, lead.best]
    who = listing(view.model_name(model) for model in lead.models)
    return _of_lead(
        view,
        lead,
        paired,
        type=spec.insight_type if spec else "accuracy",
        claim=f"{'is the' if len(lead.models) == 1 else 'are equally'} {word}",
        advice=f"Prefer {who} where this metric matters." if lead.best else f"Look at the rows that {who} failed.",
        metric_ids=[lead.metric["metric"], *(other["metric"] for other in lead.others)],
    )


def _of_lead(
    view: RunView,
    lead: Lead,
    paired: Mapping[tuple[int, int, int], Differences],
    *,
    type: str,  # noqa: A002 - as a finding's column is called
    claim: str,
    advice: str,
    **more: Any,
) -> Finding:
    """Return the finding that some models stand at one end of a metric.

    Args:
        claim: What is said of them.
        advice: What to do where that is more than chance.
    """
    metric, evaluator_id = lead.metric, lead.metric["evaluator_id"]
    who = listing(view.model_name(model) for model in lead.models)
    aggregate = view.aggregates[metric["metric_id"], lead.models[0]]
    alike = [model for model in lead.rest if not _distinct(view, lead, model, paired)]
    parts = [
        f"{who} {claim} by {view.evaluator_name(evaluator_id)}: "
        f"{metric['name']} {number(aggregate['value'])}{_interval(aggregate)}.",
        *_certainty(view, lead, alike),
    ]
    if lead.others:
        parts.append(f"Likewise by {listing(other['name'] for other in lead.others)}.")
    return Finding(
        type=type,
        evaluator_id=evaluator_id,
        metric_id=metric["metric_id"],
        model_id=lead.models[0] if len(lead.models) == 1 else None,
        description=" ".join(parts),
        actions=_UNSURE if alike else advice,
        attrs=view.attrs(
            evaluator_id=evaluator_id,
            metric=metric,
            model_id=lead.models[0],
            kind="best" if lead.best else "worst",
            **more,
            not_distinguishable_from=[view.model_name(model) for model in alike],
            scores={
                view.model_name(model): view.aggregates[metric["metric_id"], model]["value"]
                for model in (*lead.models, *lead.rest)
            },
        ),
    )


def _certainty(view: RunView, lead: Lead, alike: Sequence[int]) -> list[str]:
    """Return the sentence that names the models that cannot be distinguished from the leaders."""
    if len(alike) == len(lead.rest) > 1:
        return ["Not distinguishable from any other model at 95 %."]
    if alike:
        return [f"Not distinguishable from {listing(view.model_name(model) for model in alike)} at 95 %."]
    return ["The difference to every other model is more than chance at 95 %."] if lead.rest else []


def _interval(aggregate: Mapping[str, Any]) -> str:
    rows = count(aggregate["n_scored"], "row")
    if aggregate["ci_low"] is None:
        return f" ({rows})"
    return f" (95 % interval {number(aggregate['ci_low'])} to {number(aggregate['ci_high'])}, {rows})"


def _distinct(view: RunView, lead: Lead, model: int, paired: Mapping[tuple[int, int, int], Differences]) -> bool:
    """Return whether a model differs from the leader: paired by case, or by intervals where there are no pairs."""
    metric_id, leader = lead.metric["metric_id"], lead.models[0]
    pairs = paired.get((metric_id, leader, model))
    if pairs is not None:
        return differ(pairs, comparisons=max(1, len(lead.rest)))
    ours, theirs = view.aggregates[metric_id, leader], view.aggregates[metric_id, model]
    if ours["ci_low"] is None or theirs["ci_low"] is None:
        return False
    return bool(ours["ci_low"] > theirs["ci_high"] or ours["ci_high"] < theirs["ci_low"])


def retrieval_comparisons(view: RunView) -> Iterator[Finding]:
    """Yield the RAG models with the best and the worst contexts, where a pass/fail evaluator checks contexts."""
    leads = [lead for evaluator_id in view.evaluators for lead in _retrieval_leads(view, evaluator_id)]
    paired = _paired(view, leads)
    for lead in leads:
        yield _of_lead(
            view,
            lead,
            paired,
            type=RETRIEVAL,
            claim=f"retrieved the {'best' if lead.best else 'worst'} contexts",
            advice="Use its retrieval settings for the others." if lead.best else "Improve its retrieval first.",
        )


def _retrieval_leads(view: RunView, evaluator_id: int) -> Iterator[Lead]:
    rag = [model for model, line in view.models.items() if line["is_rag"]]
    metric = next((m for m in view.metrics_of(evaluator_id) if "retrieval" in m["metric"]), None)
    if view.evaluators[evaluator_id]["leaderboard"] != "bool" or metric is None or metric["dataset_level"]:
        return
    for best in (True, False):
        ranked = _ranked(view, metric, rag, first_is_highest=metric["higher_is_better"] is best)
        if ranked:
            yield Lead(metric, (), *ranked, best)


def usage_comparisons(view: RunView) -> Iterator[Finding]:
    """Yield the fastest and slowest, and the cheapest and most expensive model, once for the run."""
    lines = {line["model_id"]: line for line in records(view.connection, sql("insights/usage"))}
    lines = {model: line for model, line in lines.items() if model in view.models}
    timed = {model: line["duration_s"] for model, line in lines.items() if line["n_timed"]}
    costed = {model: line["cost_usd"] for model, line in lines.items() if line["n_costed"]}
    yield from _extremes(
        view, timed, "performance", "duration_s", ("fastest", "slowest"), f"{{:.3g}} s per {view.noun}"
    )
    if any(costed.values()):
        words = ("cheapest", "most expensive")
        yield from _extremes(view, costed, "cost", "cost_usd", words, f"{{:.3g}} USD per {view.noun}")


def _extremes(
    view: RunView, values: Mapping[int, float], type_: str, attr: str, words: tuple[str, str], unit: str
) -> Iterator[Finding]:
    if len(set(values.values())) < 2:
        return
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    names = {
        f"{word.replace(' ', '_')}_model_name": view.model_name(model)
        for word, model in zip(words, (low, high), strict=True)
    }
    for word, model, other in ((words[0], low, high), (words[1], high, low)):
        yield Finding(
            type=type_,
            model_id=model,
            description=f"{view.model_name(model)} is the {word} model: {unit.format(values[model])} on "
            f"average, against {unit.format(values[other])} of {view.model_name(other)}.",
            actions="Weigh this against the models' scores.",
            attrs=view.attrs(model_id=model) | names | {attr: values[model]},
        )


def preferred_model(view: RunView) -> Iterator[Finding]:
    """Yield for each evaluator that compares models the strongest, and whether chance could have put it first.

    Rivals whose own rows take no part in the run count for the strengths of the others, and are not ranked.
    """
    took_part = {line["model_key"] for line in view.models.values()}
    for evaluator_id in view.evaluators:
        if not view.compares_models(evaluator_id):
            continue
        pairs = read_pairs(view.connection, evaluator_id)
        ranked = [each for each in model_strengths(pairs).items() if each[0] in took_part]
        order = sorted(ranked, key=lambda one: (-one[1].value, one[0]))
        if len(order) > 1 and order[0][1].value > order[1][1].value:
            yield _insight(view, evaluator_id, pairs, order)


def _insight(
    view: RunView, evaluator_id: int, pairs: Sequence[JudgedPair], order: Sequence[tuple[str, Strength]]
) -> Finding:
    ids = {line["model_key"]: model_id for model_id, line in view.models.items()}
    names = {key: view.model_name(model_id) for key, model_id in ids.items()}
    (best, strength), (following, _), *_ = order
    first, second = names[best], names[following]
    mean = _between(pairs, best, following)
    low, high = mean.interval(confidence=1 - (1 - CONFIDENCE) / (len(order) - 1)) if mean else (0.0, 1.0)
    sure = low > 0.5
    ends = ""
    if strength.low is not None and strength.high is not None:
        ends = f" (95 % interval {percent(strength.low)} to {percent(strength.high)})"
    direct = (
        f" Of its comparisons with {second}, the next, it won {percent(mean.value)} ({percent(low)} to "
        f"{percent(high)}), ties counting half."
        if mean
        else ""
    )
    return view.finding(
        type="accuracy",
        kind="preferred_model",
        harm=3.0,
        description=f"By {view.evaluator_name(evaluator_id)} {first} is the strongest of {count(len(order), 'model')}: "
        f"against an average one it would win {percent(strength.value)}{ends}.{direct} "
        + ("Its lead is more than chance." if sure else f"Chance could have put it before {second}."),
        actions=f"Prefer {first}, unless cost, time or other checks speak against it."
        if sure
        else f"Add cases before choosing between {first} and {second}, or choose by cost and time.",
        evaluator_id=evaluator_id,
        model_id=ids[best],
        strengths={names[key]: one.value for key, one in order},
        next_model=second,
        won_of_next=mean.value if mean else None,
        won_low=low if mean else None,
        won_high=high if mean else None,
    )


def _between(pairs: Sequence[JudgedPair], one: str, other: str) -> Mean | None:
    """Return the mean of what a model won against another, ``None`` where fewer than two cases compare them."""
    sums: defaultdict[int, float] = defaultdict(float)
    sizes: defaultdict[int, int] = defaultdict(int)
    for pair in pairs:
        if {pair.one, pair.other} == {one, other}:
            sums[pair.cluster] += pair.score if pair.one == one else 1 - pair.score
            sizes[pair.cluster] += 1
    if len(sizes) < 2:
        return None
    totals, counts = np.array([sums[case] for case in sizes]), np.array(list(sizes.values()), dtype=np.float64)
    return mean_of_clusters(totals, counts, low=0.0, high=1.0)
