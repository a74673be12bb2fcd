"""Starting work: forms made of the jobs' settings, what runs with what it says, and a way to end it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError
from leadline.plugins.ui.prefect_work import PrefectWork, StartedFlow
from leadline.plugins.ui.site import PersonRole, Site, does, noted, person_of, shows
from leadline.plugins.ui.work_forms import (
    KINDS,
    WorkKind,
    checked_config,
    command_of,
    form_fields,
    read_form,
    recorded_settings,
)
from leadline.plugins.ui.workshop import StartedCommand
from leadline.tasks.db import open_run
from leadline.tasks.judges.labels.judged_rows import row_metrics
from leadline.tasks.runs.lookup import find_run

MOST_RUNS: Final = 200
"""Runs that a form suggests; others are named by their ids."""


def routes(site: Site) -> list[Route]:
    """Return the pages of work."""
    workshop = site.workshop
    prefect = PrefectWork(site.store.location, site.prefect)

    def show(request: Request) -> Response:
        """Show what runs, and a form of new work; filled in as a run was, and with what the address says."""
        again = request.query_params.get("again", "")
        kind = KINDS.get(request.query_params.get("job", ""), KINDS["evaluate"])
        if kind.page:
            return site.back(*kind.page)
        runs = [line for line in site.index.lines() if line.has_report][:MOST_RUNS] if kind.runs else []
        recorded, asked = settings_of(kind, again), dict(request.query_params)
        metrics: Sequence[tuple[str, str]] = ()
        if kind.metrics and runs:
            metrics = metrics_of(asked.setdefault("run", runs[0].id))
        fields = list(form_fields(kind, recorded | asked))
        given = {path: value for path, value in recorded.items() if path not in {field.path for field in fields}}
        works: list[StartedCommand | StartedFlow] = [*workshop.works()]
        trouble, problem = "", None
        try:
            works += prefect.works()
            problem = prefect.problem(kind)
        except LeadlineError as error:
            trouble = str(error)
        return site.page(
            request, "work.html", works=sorted(works, key=lambda work: work.started, reverse=True), kind=kind,
            kinds=KINDS.values(), fields=fields, given=sorted(given.items()), again=again, runs=runs, problem=problem,
            metrics=metrics, trouble=trouble, running=any(work.running for work in works),
        )  # fmt: skip

    def metrics_of(run: str) -> Sequence[tuple[str, str]]:
        """Return the metrics of a run by id and name, to choose from; none where it cannot be read."""
        try:
            with open_run(site.store, find_run(site.store, run), read_only=True) as connection:
                return [(metric.id, metric.name) for metric in row_metrics(connection)]
        except LeadlineError:
            return ()

    def settings_of(kind: WorkKind, run: str) -> dict[str, Any]:
        """Return the settings that a run was made with; none without one."""
        return recorded_settings(kind, site.store.run(site.run(run).id).read()) if run else {}

    def found(request: Request) -> StartedCommand | StartedFlow:
        name = request.path_params["name"]
        work = workshop.get(name) or prefect.get(name)
        if work is None:
            raise HTTPException(404)
        return work

    def work(request: Request) -> Response:
        shown = found(request)
        arguments = shown.arguments if isinstance(shown, StartedCommand) else ()
        command = shlex.join(each for each in arguments if each not in ("--store", site.store.location))
        said = site.told(shown.said())
        results = list(_results(site, shown, said))
        return site.page(request, "work_log.html", work=shown, said=said, command=command, results=results)

    def start(request: Request, form: Mapping[str, str]) -> Response:
        """Start work through Prefect where a worker serves its deployment, else as a command of this server."""
        kind = KINDS.get(form.get("job", "evaluate"))
        if kind is None:
            raise HTTPException(404)
        settings = settings_of(kind, form.get("again", "")) | dict(read_form(kind, form))  # what the form shows counts
        settings = {path: value for path, value in settings.items() if value is not None}
        config = checked_config(kind, settings, site.store.location)
        person = person_of(request).name
        started: StartedCommand | StartedFlow
        if prefect.problem(kind) == "":
            started = prefect.start(kind, config, person)
        else:
            arguments = command_of(kind, settings, site.store.location)
            started = workshop.start(kind.job().run_name(config), kind.name, settings, arguments, person)
        where = "Prefect" if isinstance(started, StartedFlow) else "this server"
        given = ", ".join(f"{path} = {value}" for path, value in settings.items())
        noted(request, "started work", work=started.title, id=started.id, where=where, settings=given)
        return site.back("work", started.id)

    def stop(request: Request, form: Mapping[str, str]) -> Response:
        del form
        stopped = found(request)
        if isinstance(stopped, StartedFlow):
            prefect.stop(stopped)
        else:
            workshop.stop(stopped)
        noted(request, "stopped work", work=stopped.title, id=stopped.id)
        return site.back("work", stopped.id)

    return [
        shows("/work", show),
        shows("/work/{name}", work),
        does("/work", PersonRole.EDITOR, start),
        does("/work/{name}/stop", PersonRole.EDITOR, stop),
    ]


def _results(site: Site, work: StartedCommand | StartedFlow, said: str) -> Iterator[tuple[str, str]]:
    """Yield what came of work, in words with the address of its page."""
    made = [line.id for line in site.index.lines() if line.has_report and line.flow_run == work.id]
    for name in dict.fromkeys([*made, *re.findall(r"/runs/([\w.-]+)/results/report\.html", said)]):
        yield "The run", site.link("runs", name)
    for name in dict.fromkeys(re.findall(r"/comparisons/([\w.-]+)/report\.html", said)):
        yield "The comparison", site.link("comparisons", name, "report.html")
    asked = work.settings
    if work.outcome != "done":
        return
    if work.job == "collect":
        answers = f"{Path(asked['suite']).stem}.answers.jsonl"
        yield "Evaluate these answers", site.link("work", job="evaluate", dataset=answers)
    elif work.job == "sample-labels":
        yield "The queues", site.link("labels")
    elif work.job == "improve-judge" and asked.get("labels"):
        yield "What came of it", site.link("labels", asked["labels"], "improve", metric=asked.get("metric"))
