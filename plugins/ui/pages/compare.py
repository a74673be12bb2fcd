"""Comparing: runs or models picked by clicking, effects with their intervals, and what broke or was fixed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.ui.marked_text import word_differences
from leadline.plugins.ui.site import MOST_QUERY, Site, shows

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison
    from leadline.tasks.compare.results import MetricComparison

MOST_SIDES: Final = 6
"""Runs or models that are compared with the first on one page."""

MOST_ROWS: Final = 60
"""Changed cases of each metric and direction that a page shows."""

KEPT: Final = 32
"""Comparisons that are kept in memory."""

CHOICES: Final = 200
"""Runs that may be picked from the list; others by their ids."""

PLOT: Final = 200.0
"""Width of the picture of an effect, in its own units."""


@dataclass
class Comparisons:
    """Comparisons by what was asked; the latest are kept, since each takes a second."""

    site: Site
    _kept: OrderedDict[tuple[object, ...], Comparison] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, baseline: str, candidate: str, slices: Sequence[str]) -> Comparison:
        """Return a candidate compared with a baseline.

        Raises:
            UsageError: There is no such run or model, or they have nothing in common.
        """
        from leadline.tasks.compare import Options, compare

        store = self.site.store
        marks = [store.run(side.partition(":")[0]).read().get("ended") for side in (baseline, candidate)]
        key = (baseline, candidate, *slices, *map(str, marks))
        with self._lock:  # one at a time: each takes all processors
            if key not in self._kept:
                self._kept[key] = compare(store, baseline, candidate, Options(slices=tuple(slices), shown=MOST_ROWS))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


@dataclass(frozen=True, slots=True)
class EffectPicture:
    """An effect with its interval and margin, as places on a line from 0 to :data:`PLOT`."""

    low: float
    high: float
    at: float
    zero: float
    margin: float | None


def routes(site: Site) -> list[Route]:
    """Return the page of comparisons."""
    comparisons = Comparisons(site)

    def show(request: Request) -> Response:
        asked = [side[:MOST_QUERY] for side in request.query_params.getlist("run") if side][: MOST_SIDES + 1]
        if request.query_params.get("pick"):  # from the list of runs, where the oldest is the baseline
            asked.sort()
        slices = [
            name for name in request.query_params.get("slices", "")[:MOST_QUERY].replace(",", " ").split() if name
        ]
        runs = [line for line in site.index.lines() if line.has_report][:CHOICES]
        shown, trouble = [], ""
        try:
            if len(asked) == 1 and ":" not in asked[0]:
                raise UsageError("Pick a second run or model to compare it with.", code=ErrorCode.COMPARE_SIDES)
            shown = [_shown(comparisons.of(asked[0], other, slices)) for other in asked[1:]]
        except UsageError as error:
            trouble = str(error)
        return site.page(
            request, "compare.html", asked=asked, runs=runs, slices=" ".join(slices), compared=shown, trouble=trouble,
            plot=PLOT,
        )  # fmt: skip

    return [shows("/compare", show)]


def _shown(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as its page shows it: metrics with pictures of their effects, and the cases that changed."""
    metrics = [
        {"found": found, "picture": _picture(found), "rows": [_differing(row) for row in found.changed_rows]}
        for found in comparison.metrics
        if found.effect is not None or found.verdict in ("incomparable", "one_sided")
    ]
    return {
        "comparison": comparison,
        "metrics": metrics,
        "slices": [found for found in comparison.slices if found.effect is not None][:CHOICES],
    }


def _differing(row: Any) -> dict[str, Any]:
    before, after = word_differences(row.baseline_answer or "", row.candidate_answer or "")
    return {"row": row, "before": before, "after": after, "same": row.baseline_answer == row.candidate_answer}


def _picture(found: MetricComparison) -> EffectPicture | None:
    """Return where an effect lies on a line that reaches as far as its interval or margin, to both sides of zero."""
    if found.effect is None or found.ci_low is None or found.ci_high is None:
        return None
    ends = [abs(value) for value in (found.effect, found.ci_low, found.ci_high, found.margin or 0.0)]
    farthest = max(ends)
    if not 0 < farthest < float("inf"):
        return None

    def place(value: float) -> float:
        return round(PLOT * (0.5 + 0.48 * value / farthest), 1)

    margin = place(-found.margin) if found.margin is not None else None
    return EffectPicture(place(found.ci_low), place(found.ci_high), place(found.effect), place(0.0), margin)
