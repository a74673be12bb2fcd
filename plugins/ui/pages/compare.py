"""Comparing: runs or models picked by clicking, effects with their intervals, and what broke or was fixed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.ui.marked_text import word_differences
from leadline.plugins.ui.site import MOST_QUERY, Site, shows
from leadline.tasks.compare import Comparison, Options, compare
from leadline.tasks.compare.report import axis_reach, effect_mark

MOST_SIDES: Final = 6
"""Runs or models that are compared with the first on one page."""

MOST_ROWS: Final = 60
"""Changed cases of each metric and direction that a page shows."""

KEPT: Final = 32
"""Comparisons that are kept in memory."""

CHOICES: Final = 200
"""Runs that may be picked from the list; others by their ids."""


@dataclass
class Comparisons:
    """Comparisons by what was asked; the latest are kept, since each takes a second, of large runs many."""

    site: Site
    _kept: dict[tuple[object, ...], Comparison] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, baseline: str, candidate: str, slices: Sequence[str]) -> Comparison:
        """Return a candidate compared with a baseline.

        Raises:
            UsageError: There is no such run or model, or they have nothing in common.
        """
        store = self.site.store
        runs = [store.run(side.partition(":")[0]) for side in (baseline, candidate)]
        changed = [run.database.stat().st_mtime_ns if run.database.exists() else 0 for run in runs]
        key = (baseline, candidate, *slices, *changed)
        if known := self._kept.get(key):  # without waiting for one that takes a minute
            return known
        with self._lock:  # one at a time: each takes all processors
            if not (known := self._kept.get(key)):
                known = compare(store, baseline, candidate, Options(slices=tuple(slices), shown=MOST_ROWS))
                self._kept[key] = known
                while len(self._kept) > KEPT:
                    del self._kept[next(iter(self._kept))]
            return known


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
            trouble = site.told(error)
        return site.page(
            request, "compare.html", asked=asked, runs=runs, slices=" ".join(slices), compared=shown, trouble=trouble,
        )  # fmt: skip

    return [shows("/compare", show)]


def _shown(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as its page shows it: metrics with pictures of their effects, and the cases that changed."""
    reach = axis_reach(comparison.metrics)
    metrics = [
        {"found": found, "mark": effect_mark(found, reach), "rows": [_differing(row) for row in found.changed_rows]}
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
