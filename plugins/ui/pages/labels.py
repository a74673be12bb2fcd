"""Labels: the sets of a store with their progress, drawing a sample, a queue to label in, and where people differ.

The queue is blind: neither a model's name nor a judge's verdict nor what others said is in the page, its title or its
address before the label is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.data import dialogue_of
from leadline.evaluators.ground import LeadlineError
from leadline.plugins.ui.names import keep_name, name_of, readable_name
from leadline.plugins.ui.pages.cases import MOST_MESSAGES
from leadline.plugins.ui.site import PersonRole, Site, asked, does, noted, pager, person_of, shows
from leadline.tasks.judges.labels.judged_rows import JudgedMetric
from leadline.tasks.judges.labels.known_labels import CRITERIA, metric_asked
from leadline.tasks.judges.labels.label_sets import DEFAULT_SET, find_label_set, label_sets
from leadline.tasks.judges.labels.labelling_tasks import Criterion, criterion_of
from leadline.tasks.judges.labels.queues import (
    LabelQueue,
    QueueFindings,
    choices,
    decide,
    findings_of,
    give_label,
    queue_of,
    queues_of,
    seen_of,
    seen_of_labels,
)
from leadline.tasks.load.label import LONGEST, Label

PAGE: Final = 10
"""Queues, or rows about which people differ, on one page."""

WORDS: Final = {question: words for question, (words, _) in CRITERIA.items()}
"""The questions that people are asked whatever metrics say, in words."""


@dataclass(frozen=True)
class Labelling:
    """The queues of a store, with what is dear to find out and changes seldom."""

    site: Site
    _findings: dict[tuple[str, str], tuple[int, QueueFindings | str]] = field(default_factory=dict)

    def queue(self, request: Request, metric: str) -> LabelQueue:
        """Return the queue that an address names."""
        return queue_of(find_label_set(self.site.store, request.path_params["name"]), metric)

    def findings(self, queue: LabelQueue) -> QueueFindings | str:
        """Return what the labels of a queue say, or why that cannot be told; both are kept until there is another."""
        state = hash((queue.labels, queue.rows))
        place = queue.labels_of.name, queue.question
        kept = self._findings.get(place)
        if kept is None or kept[0] != state:
            try:
                found: QueueFindings | str = findings_of(self.site.store, queue) if queue.rows else "No row was drawn."
            except LeadlineError as error:  # the run was dropped, or is in work
                found = self.site.told(error)
            kept = self._findings[place] = (state, found)
        return kept[1]


def routes(site: Site) -> list[Route]:
    """Return the pages of labels."""
    labelling = Labelling(site)

    @lru_cache(maxsize=100)
    def asked_about(run: str, question: str) -> tuple[JudgedMetric, Criterion]:
        metric = metric_asked(site.store, site.store.run(run), question)
        return metric, criterion_of(site.store, site.store.run(run), metric)

    def show(request: Request) -> Response:
        queues = [queue for labels_of in label_sets(site.store) for queue in queues_of(labels_of).values()]
        place = pager(request, len(queues), PAGE)
        lines = [(queue, labelling.findings(queue)) for queue in queues[place.offset : place.last]]
        return site.page(request, "labels.html", lines=lines, pager=place, name=name_of(request), words=WORDS)

    def queue(request: Request) -> Response:
        if not person_of(request).may_label:
            raise HTTPException(403, "That needs the role labeller.")
        wanted, name = asked(request, "metric", "after", "row"), name_of(request)
        found = labelling.queue(request, wanted["metric"])
        if not name:
            return site.page(request, "label_name.html", queue=found)
        place = found.place_of.get(wanted["row"])
        row = found.next_for(name, wanted["after"]) if place is None else found.rows[place]
        said = found.said_by(name)
        shown: dict[str, Any] = {"row": row, "queue": found, "name": name, "given": len(said.keys() & found.place_of)}
        if row is None:
            return site.page(request, "label_queue.html", **shown)
        metric, criterion = asked_about(row.run, found.question)
        seen = seen_of(site.store, row)
        return site.page(
            request, "label_queue.html", metric=metric, criterion=criterion, seen=seen, said=said.get(row.key),
            talk=dialogue_of(seen["messages"])[:MOST_MESSAGES] if seen else (), before=found.before(row.key),
            longest=LONGEST,
            choices=list(choices(metric.low, metric.high, binary=metric.is_binary)), **shown,
        )  # fmt: skip

    def give_name(request: Request, form: Mapping[str, str]) -> Response:
        name = readable_name(form.get("name", ""))
        answer = site.back("labels", form.get("set", DEFAULT_SET), "queue", metric=form.get("metric", ""))
        keep_name(request, answer, name, site.base)
        return answer

    def label(request: Request, form: Mapping[str, str]) -> Response:
        found = labelling.queue(request, form.get("metric", ""))
        given = give_label(found, form.get("row", ""), form, name_of(request))
        _note_label(request, "labelled", found, given)
        return site.back("labels", found.labels_of.name, "queue", metric=found.question, after=given.key)

    def disagreements(request: Request) -> Response:
        wanted, person, name = asked(request, "metric", "all"), person_of(request), name_of(request)
        found = labelling.queue(request, wanted["metric"])
        differing = found.differing()
        own = found.said_by(name) if name else {}
        may_see_all = not person.may_label or (person.may_edit and bool(wanted["all"]))
        hidden = {key for key in differing if key in found.place_of and key not in own and not may_see_all}
        shown = [key for key in differing if key not in hidden]
        place = pager(request, len(shown), PAGE)
        labels = {key: differing[key] for key in shown[place.offset : place.last]}
        metric = asked_about(found.run, found.question)[0] if found.run else None
        values = [label.value for those in labels.values() for label in those if label.value is not None]
        binary = metric.is_binary if metric else set(values) <= {0.0, 1.0}
        return site.page(
            request, "label_disagreements.html", queue=found, labels=labels, pager=place, hidden=len(hidden),
            seen=seen_of_labels(site.store, found, [one for those in labels.values() for one in those]),
            binary=binary, longest=LONGEST, words=WORDS,
            choices=list(choices(metric.low, metric.high, binary=binary)) if metric else None,
        )  # fmt: skip

    def adjudicate(request: Request, form: Mapping[str, str]) -> Response:
        found = labelling.queue(request, form.get("metric", ""))
        name = name_of(request)
        if not name:
            return site.page(request, "label_name.html", queue=found)
        given = decide(found, form.get("row", ""), form, name)
        _note_label(request, "decided", found, given, name)
        return site.back("labels", found.labels_of.name, "disagreements", metric=found.question, all="1")

    return [
        shows("/labels", show),
        does("/labels/name", PersonRole.LABELLER, give_name),
        shows("/labels/{name}/queue", queue),
        does("/labels/{name}/label", PersonRole.LABELLER, label),
        shows("/labels/{name}/disagreements", disagreements),
        does("/labels/{name}/decide", PersonRole.EDITOR, adjudicate),
    ]


def _note_label(request: Request, did: str, queue: LabelQueue, label: Label, person: str = "") -> None:
    """Note who gave a label to which row; its value stands in the set alone, for editors label blindly, too."""
    about = {"row": label.key, "question": queue.question, "set": queue.labels_of.name}
    noted(request, did, **about, person=person or label.person)
