"""Names that the labels of a dataset give to metrics, and what to say of those that are no metric's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import all_evaluators, find
from leadline.evaluators.ground.text import count

_NAMED: Final = 10
"""Names that are said; the others are counted."""


def unknown_names(names: Iterable[str], chosen: Iterable[Evaluator]) -> list[str]:
    """Return a sentence for each name of a label that no metric of rows has, with the nearest one that there is.

    Args:
        names: The names: ``EVALUATOR`` or ``EVALUATOR.METRIC``.
        chosen: The evaluators of the run; labels of others are fine too, as long as there is such an evaluator.
    """
    own = {evaluator.spec.id: evaluator.metrics for evaluator in chosen}
    unknown = [(name, metrics) for name in names if (metrics := _near(name, own)) is not None]
    more = len(unknown) - _NAMED
    found = [_sentence(name, metrics or [*own, *all_evaluators()]) for name, metrics in unknown[:_NAMED]]
    return found + ([f"{count(more, 'further name')} of labels are no evaluator's"] if more > 0 else [])


def _near(name: str, own: Mapping[str, Sequence[Metric]]) -> list[str] | None:
    """Return the metrics of the evaluator that a name begins with, none for no evaluator; ``None`` for a right name."""
    for id_, metric in ((name, ""), name.rpartition(".")[::2]):
        kind = None if id_ in own else find(id_.partition("#")[0])
        metrics = own.get(id_) or (kind.spec.metrics if kind else None)
        if metrics is None:
            continue
        if not metric or any(metric == each.key for each in metrics):
            return None
        return [f"{id_}.{each.key}" for each in metrics]
    return []


def _sentence(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"the nearest is {near[0]}" if near else "leadline evaluators list lists them"
    return f"labels of {name!r} are left out, which is no evaluator or metric; {hint}"
