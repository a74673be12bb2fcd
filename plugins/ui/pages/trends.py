"""The page of trends: a metric over the runs of a dataset, drawn by epochs, and what changed lately in the store."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.plugins.ui.pages.trend_chart import draw
from leadline.plugins.ui.site import Pager, Site, asked, number, pager, shows
from leadline.tasks.compare.rescored import EpochJoin, join_epochs
from leadline.tasks.judges.labels.run_corrections import PresentLabels
from leadline.tasks.policy.questions import IN_WORDS, Question
from leadline.tasks.runs.history import RunHistory
from leadline.tasks.runs.run_index import RunLine, datasets_of
from leadline.tasks.runs.trends import MEASURES, OF_RUNS, Trend, TrendChange, Trends, epoch_in_words

PATIENCE_S: Final = 2.0
"""Seconds that a page spends on reading runs that were never read; it says how many are left."""

PAGE: Final = 100
"""Runs of the table on one page."""

LASTS: Final = (30, 60, 120, 365, 1000)
"""Numbers of runs that a reader may look at."""

MOST_NEWS: Final = 8
"""Changes at the head of the page."""

MOST_SLICES: Final = 300

TO_JOIN: Final = 3
"""Last runs of an epoch that a reader is advised to score again."""


@dataclass(frozen=True, slots=True)
class ShownEpoch:
    """An epoch of series.

    Attributes:
        words: What it is made of, or what changed at its beginning.
        models: Those that it holds for.
        joins: What tells it from the epoch before, where answers of that were scored again.
        command: A command that would tell it, or "".
    """

    run: RunLine
    words: str
    command: str
    models: list[str] = field(default_factory=list)
    joins: list[EpochJoin] = field(default_factory=list)


def routes(site: Site) -> list[Route]:
    """Return the page's routes."""
    trends = Trends(RunHistory(site.store, site.index, PresentLabels(site.store)))

    def show(request: Request) -> Response:
        left = trends.history.gather(PATIENCE_S)
        news, looked_at = trends.lately()
        wanted = asked(request, "dataset", "of", "measure", "model", "slice", "last")
        datasets = datasets_of(trends.runs())
        if wanted["dataset"] not in datasets:
            newest = trends.runs()
            wanted["dataset"] = newest[-1].dataset if newest else ""
        choices = _choices(trends, wanted["dataset"])
        of, measure = _chosen(wanted["of"], wanted["measure"], choices)
        known = next((line for line in choices if line["of"] == of), None)
        evaluator, metric = (known["evaluator"], known["metric"]) if known else ("", "")
        found = trends.of(wanted["dataset"], measure, evaluator, metric, slice_=wanted["slice"])
        models = [trend.subject.model for trend in found if trend.subject.model]
        shown = [trend for trend in found if wanted["model"] in ("", trend.subject.model)] or found
        last = number(wanted["last"], LASTS[1])
        runs = _runs_of(shown)[-last:]
        place = pager(request, len(runs), PAGE)
        return site.page(
            request, "trends.html", asked=wanted | {"of": of, "measure": measure, "last": last}, left=left,
            datasets=[(name, name) for name in datasets], subjects=_subjects(choices), lasts=LASTS,
            measures=_measures(known), models=[(name, name) for name in models], runs=runs,
            slices=[(name, name) for name in ((known or {}).get("slices") or ())[:MOST_SLICES]],
            chart=draw(shown, runs), table=_table(shown, runs, place), pager=place, trends=shown,
            epochs=_epochs(site, shown, runs, trends.runs(wanted["dataset"])),
            changes=[trend.about(change) for trend in shown for change in trend.changes],
            news=news[:MOST_NEWS], n_news=len(news), looked_at=looked_at, link_to=lambda change: _link(site, change),
        )  # fmt: skip

    return [shows("/trends", show)]


def _choices(trends: Trends, dataset: str) -> list[dict[str, Any]]:
    """Return the metrics and questions of a dataset's runs, each once, with the measures that there are of it."""
    found: dict[str, dict[str, Any]] = {}
    for line in trends.choices(dataset):
        of = f"{line['evaluator']}.{line['metric']}"
        known = found.setdefault(of, {**line, "of": of, "measures": [], "slices": []})
        known["measures"].append(line["measure"])
        known["slices"] += sorted(line["slices"] or ())
    return sorted(found.values(), key=lambda line: (bool(line["evaluator"]), not line["is_primary"], line["name"]))


def _subjects(choices: Sequence[dict[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what can be drawn, in groups: questions of the verdict, metrics, other metrics, whole runs."""
    questions = [
        (line["of"], IN_WORDS.get(Question(line["metric"]), "") if line["metric"] in set(Question) else line["metric"])
        for line in choices
        if not line["evaluator"]
    ]
    metrics = [(line["of"], line["name"]) for line in choices if line["evaluator"] and line["is_primary"]]
    others = [(line["of"], line["name"]) for line in choices if line["evaluator"] and not line["is_primary"]]
    whole = [(f"run.{measure}", words) for measure, words in OF_RUNS.items()]
    groups = (("Questions", questions), ("Metrics", metrics), ("More metrics", others), ("Whole runs", whole))
    return [(name, lines) for name, lines in groups if lines]


def _chosen(of: str, measure: str, choices: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return what is drawn and its measure; by default the first metric's mean, or the coverage of runs."""
    if of.startswith("run.") and of.removeprefix("run.") in OF_RUNS:
        return of, of.removeprefix("run.")
    known = {line["of"]: line for line in choices}
    if of not in known:
        of = next((line["of"] for line in choices if line["evaluator"]), next(iter(known), ""))
    if not of:
        return "run.coverage", "coverage"
    fitting = [name for name, _ in _measures(known[of])]
    return of, measure if measure in fitting else fitting[0]


def _measures(known: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the measures of a metric or question, the mean first."""
    if known is None:
        return []
    there = {*known["measures"]} | ({"coverage", "unscored"} if "value" in known["measures"] else set())
    return [(name, words) for name, words in MEASURES.items() if name in there]


def _runs_of(trends: Sequence[Trend]) -> list[RunLine]:
    """Return the runs in which any of some series has a point, the oldest first."""
    known = {point.run.id: point.run for trend in trends for point in trend.points}
    return sorted(known.values(), key=lambda line: (line.day, line.id))


def _table(trends: Sequence[Trend], runs: Sequence[RunLine], place: Pager) -> list[tuple[RunLine, list[Any], bool]]:
    """Return a page of the chart's numbers, the newest run first: each with its points, and if its dataset is new."""
    points = [{point.run.id: point for point in trend.points} for trend in trends]
    before = {run.id: earlier for earlier, run in pairwise(runs)}
    return [
        (run, [of.get(run.id) for of in points], _is_new(run, before.get(run.id)))
        for run in runs[::-1][place.offset : place.last]
    ]


def _is_new(run: RunLine, before: RunLine | None) -> bool:
    return before is not None and before.cases != run.cases


def _epochs(site: Site, trends: Sequence[Trend], runs: Sequence[RunLine], every: Sequence[RunLine]) -> list[ShownEpoch]:
    """Return the epochs that runs are in.

    Args:
        every: All runs of the dataset, in their order.
    """
    found: dict[tuple[str, str], ShownEpoch] = {}
    shown = {run.id for run in runs}
    for trend in trends:
        ends = [*trend.starts[1:], len(trend.points)]
        for start, end in zip(trend.starts, ends, strict=True) if len(trend.starts) > 1 else ():
            if shown.isdisjoint(point.run.id for point in trend.points[start:end]):
                continue
            words = epoch_in_words(site.store, trend, start)
            run = trend.points[start].run
            epoch = found.setdefault((run.id, words), ShownEpoch(run, words, _command(trend, start, every)))
            epoch.models.append(trend.subject.model)
            if start and (join := join_epochs(site.store, trend, start)):
                epoch.joins.append(join)
    return sorted(found.values(), key=lambda epoch: epoch.run.id)


def _command(trend: Trend, start: int, every: Sequence[RunLine]) -> str:
    """Return the command that scores the last runs before an epoch again as it scores; "" for the first epoch."""
    if not start or not trend.subject.evaluator:
        return ""
    before = max(start - TO_JOIN, *(one for one in trend.starts if one < start))
    first = next((place for place, run in enumerate(every) if run.id == trend.points[before].run.id), 0)
    now, earlier = trend.points[start].judge, trend.points[start - 1].judge
    words = ["leadline", "rescore", "--last", str(len(every) - first), "--dataset", trend.subject.dataset]
    judge = ["--judge", now] if now and now != earlier else []
    return shlex.join([*words, "-e", trend.subject.evaluator, *judge])


def _link(site: Site, change: TrendChange) -> str:
    """Return the address of a change's series."""
    subject = change.trend.subject
    of = f"{subject.evaluator}.{subject.metric}" if subject.metric else f"run.{subject.measure}"
    return site.link("trends", dataset=subject.dataset, of=of, measure=subject.measure, model=subject.model)
