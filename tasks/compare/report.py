"""The report of a comparison: a page, Markdown, JSON and flips as CSV, in a folder that appears complete or not at all.

The page is one file that needs nothing else and runs no script.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from leadline.evaluators.ground import ErrorCode, StoreError, write
from leadline.tasks.compare.measure import write_flips
from leadline.tasks.compare.results import Comparison, MetricComparison
from leadline.tasks.compare.verdicts import broken_cases, moved, names, story, worst_slices
from leadline.tasks.ground.files import copy_out, replacing
from leadline.tasks.ground.templating import content_policy, page_style, render
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = "leadline.comparison"
SCHEMA_VERSION: Final = 1
FOLDER: Final = "comparisons"
MOST_LINES: Final = 5
"""Metrics that each list of the first screen shows."""
MOST_SLICES: Final = 200
"""Slices that the page lists; ``comparison.json`` has all of them."""
MOST_NAMES: Final = 20
"""Metrics that are named in a sentence below these lists."""


def publish(connection: DuckDBPyConnection, store: Store, comparison: Comparison, *, output: Path | None) -> Comparison:
    """Write a comparison below ``comparisons/<id>/`` in the store, and copy it to ``output``.

    Returns:
        The comparison with the places of its files.

    Raises:
        StoreError: ``output`` cannot be written.
    """
    folder = store.root / FOLDER / comparison.id
    comparison = dataclasses.replace(comparison, folder=folder, report=folder / "report.html")
    try:
        with replacing(folder) as draft:
            draft.mkdir()
            _fill(connection, comparison, draft)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        if not (folder / "report.html").exists():  # otherwise another process published the same comparison
            raise
    if store.remote:
        store.remote.push_folder(folder, "comparison.json")
    if output is None:
        return comparison
    try:
        copy_out(folder, output)
    except (OSError, shutil.Error) as error:
        raise StoreError(
            f"The comparison cannot be copied to {output}: {error}.",
            hint=f"It is complete in {folder}.",
            code=ErrorCode.STORE_COPY,
        ) from error
    return dataclasses.replace(comparison, folder=output, report=output / "report.html")


def _fill(connection: DuckDBPyConnection, comparison: Comparison, folder: Path) -> None:
    write(folder / "comparison.json", record(comparison))
    _write_page(comparison, folder / "report.html")
    gist = render(__package__ or "", "report.md", comparison=comparison, **_sentences(comparison))
    (folder / "report.md").write_text(gist, encoding="utf-8")
    write_flips(connection, folder / "flips.csv")


def _sentences(comparison: Comparison) -> dict[str, object]:
    """Return what the templates need to put a comparison into sentences."""
    several = len({found.models for found in comparison.metrics}) > 1
    return {
        "story": story(comparison.metrics),
        "several": several,
        "moved": partial(moved, several=several),
        "worst_slices": partial(worst_slices, several=several),
        "broken_cases": partial(broken_cases, several=several),
        "names": partial(names, most=MOST_NAMES),
    }


def record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON contains it, without the places of its files."""
    fields = {field.name: getattr(comparison, field.name) for field in dataclasses.fields(comparison)}
    rest = {name: value for name, value in fields.items() if name not in ("folder", "report", "metrics")}
    metrics = [_metric(found) for found in comparison.metrics]
    return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **rest, "metrics": metrics}


def _metric(found: MetricComparison) -> Mapping[str, Any]:
    """Return one metric, its own description and its coverage unfolded."""
    line = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    coverage = dataclasses.asdict(found.coverage) | {"share": found.coverage.share}
    return {"key": found.metric.key, **line, "coverage": coverage}


def _write_page(comparison: Comparison, path: Path) -> None:
    reach = axis_reach(comparison.metrics)
    page = render(
        __package__ or "",
        "report.html",
        comparison=comparison,
        most=MOST_LINES,
        most_slices=MOST_SLICES,
        **_sentences(comparison),
        marks=[effect_mark(found, reach) for found in comparison.metrics],
        reach=reach,
        style=Markup(_style()),  # noqa: S704 - our own files
        policy=content_policy(_style()),
    )
    path.write_text(page, encoding="utf-8", newline="\n")


@cache
def _style() -> str:
    return page_style() + (files(__package__ or "") / "templates" / "style.css").read_text(encoding="utf-8")


_LEAST_REACH: Final = 0.1
"""Smallest share of a metric's range that the axis shows, so that small effects do not look large."""


@dataclass(frozen=True, slots=True)
class EffectMark:
    """The position of one effect on the axis, in percent from the left; ``None`` where there is nothing to draw.

    Attributes:
        low: The interval's bad end.
        high: Its good end.
        margin: The largest tolerated worsening; 50, no distance from 0, where nothing was compared.
        cut: Whether the interval reaches beyond the axis.
    """

    effect: float | None
    low: float | None
    high: float | None
    margin: float
    cut: bool


def _scale(found: MetricComparison) -> float:
    """Return what counts as 1 on the axis: the metric's range, or where it has no end the baseline's value."""
    width = found.metric.high - found.metric.low
    if math.isfinite(width):
        return width
    return abs(found.baseline) if found.baseline and math.isfinite(found.baseline) else 1.0


def axis_reach(metrics: Sequence[MetricComparison]) -> float:
    """Return how far the axis reaches to either side of 0."""
    ends = [
        abs(end) / _scale(found)
        for found in metrics
        for end in (found.effect, found.ci_low, found.ci_high, found.margin)
        if end is not None and math.isfinite(end)
    ]
    return min(1.0, max([_LEAST_REACH, *ends]) * 1.05)


def effect_mark(found: MetricComparison, reach: float) -> EffectMark:
    """Return where an effect lies on an axis.

    Args:
        reach: How far the axis reaches to either side of 0, from :func:`axis_reach`.
    """

    def place(value: float | None) -> float | None:
        if value is None or math.isnan(value):
            return None
        return 50 + 50 * max(-1.0, min(1.0, value / _scale(found) / reach))

    ends = [end for end in (found.ci_low, found.ci_high, found.effect) if end is not None]
    cut = any(abs(end) / _scale(found) > reach for end in ends)
    return EffectMark(
        place(found.effect), place(found.ci_low), place(found.ci_high), place(-(found.margin or 0.0)) or 0.0, cut
    )
