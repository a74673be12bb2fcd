"""Datasets over time: versions of a dataset, the cases in which they differ, and words of which questions drifted."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.plugins.ui.marked_text import word_differences
from leadline.plugins.ui.site import Site, asked, pager, shows
from leadline.tasks.compare.dataset_versions import (
    CaseChanges,
    WordShift,
    case_changes,
    changed_cases,
    shifted_words,
    versions_of,
)
from leadline.tasks.runs.run_index import datasets_of

PAGE: Final = 25
"""Cases on one page."""

MOST_VERSIONS: Final = 100
"""Versions that are listed, the newest ones."""

PATIENCE_S: Final = 0.5
"""Seconds that a page spends on comparing versions beside the chosen one; a later one goes on."""

KINDS: Final = ("edited", "added", "removed")


def routes(site: Site) -> list[Route]:
    """Return the page."""

    def show(request: Request) -> Response:
        wanted = asked(request, "dataset", "version", "kind")
        runs = [line for line in site.index.lines() if line.has_report]
        names = datasets_of(runs)
        if wanted["dataset"] not in names:
            wanted["dataset"] = runs[0].dataset if runs else ""
        versions = versions_of(runs, wanted["dataset"])[: MOST_VERSIONS + 1]
        steps = list(pairwise(versions))
        chosen = next((step for step in steps if step[0].digest == wanted["version"]), steps[0] if steps else None)
        counts: dict[str, CaseChanges | None] = {}
        end = time.monotonic() + PATIENCE_S
        for after, before in [*([chosen] if chosen else ()), *steps]:
            if not counts or time.monotonic() < end:
                counts[after.digest] = case_changes(site.store, before.digest, after.digest)
        found = counts.get(chosen[0].digest) if chosen else None
        kind = wanted["kind"] if wanted["kind"] in KINDS else None
        total = sum(getattr(found, name) for name in KINDS if kind in (None, name)) if found else 0
        place = pager(request, total, PAGE)
        lines: list[dict[str, Any]] = []
        words: tuple[WordShift, ...] = ()
        if chosen and found:
            after, before = (version.digest for version in chosen)
            lines = changed_cases(site.store, before, after, kind=kind, limit=PAGE, offset=place.offset)
            words = shifted_words(site.store, before, after)
        for line in lines:
            if line["kind"] == "edited":
                line["differs"] = word_differences(line["question_before"] or "", line["question"] or "")
        return site.page(
            request, "datasets.html", asked=wanted, datasets=[(name, name) for name in names], versions=versions,
            counts=counts, chosen=chosen, found=found, lines=lines, words=words, pager=place, kinds=KINDS,
            most=MOST_VERSIONS,
        )  # fmt: skip

    return [shows("/trends/datasets", show)]
