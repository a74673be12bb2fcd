"""Insight of which model a judge prefers, where answers were compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from leadline.evaluators.ground.text import count, percent
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.analyse.model_strengths import model_strengths
from leadline.tasks.analyse.pair_records import JudgedPair, read_pairs
from leadline.tasks.statistics.bounded_mean import CONFIDENCE, Mean, mean_of_clusters
from leadline.tasks.statistics.bradley_terry import Strength


def preferred_model(view: RunView) -> Iterator[Finding]:
    """Yield for each evaluator that compares models the strongest, and whether chance could have put it first."""
    for evaluator_id in view.evaluators:
        if not view.compares_models(evaluator_id):
            continue
        pairs = read_pairs(view.connection, evaluator_id)
        order = sorted(model_strengths(pairs).items(), key=lambda one: (-one[1].value, one[0]))
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
    return Finding(
        type="accuracy",
        kind="preferred_model",
        harm=3.0,
        evaluator_id=evaluator_id,
        model_id=ids[best],
        description=f"By {view.evaluator_name(evaluator_id)} {first} is the strongest of {count(len(order), 'model')}: "
        f"against an average one it would win {percent(strength.value)}{ends}.{direct} "
        + ("Its lead is more than chance." if sure else f"Chance could have put it before {second}."),
        actions=f"Prefer {first}, unless cost, time or other checks speak against it."
        if sure
        else f"Add cases before choosing between {first} and {second}, or choose by cost and time.",
        attrs=view.attrs(
            evaluator_id=evaluator_id,
            model_id=ids[best],
            strengths={names[key]: one.value for key, one in order},
            next_model=second,
            won_of_next=mean.value if mean else None,
            won_low=low if mean else None,
            won_high=high if mean else None,
        ),
    )


def _between(pairs: Sequence[JudgedPair], one: str, other: str) -> Mean | None:
    """Return the mean of what a model won against another, ``None`` where they were compared on fewer than two cases.

    Args:
        pairs: The comparisons of all models.
        one: Key of the model.
        other: Key of the other.
    """
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
