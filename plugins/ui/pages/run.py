"""One run: its verdict, its board, its problems, and what there is to read of it."""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError
from leadline.plugins.ui.served_files import answer_with, files_of, folder_of
from leadline.plugins.ui.site import Site, shows
from leadline.tasks.runs.run_facts import SYMBOLS, answers_of
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.show import board_and_problems

MOST_PROBLEMS: Final = 12
"""Problems on a run's page; the others are in its report."""


def routes(site: Site) -> list[Route]:
    """Return the pages of a run and of the files of its results."""

    def show(request: Request) -> Response:
        line = site.run(request.path_params["name"])
        results = folder_of(site.store, "runs", line.id)
        listed = files_of(site.store, results) if results and line.has_report else []
        flow_run = f"{site.prefect}/runs/flow-run/{line.flow_run}" if site.prefect and line.flow_run else ""
        return site.page(
            request, "run.html", run=line, files=listed, flow_run=flow_run, symbols=SYMBOLS, **_findings(site, line)
        )

    def file(request: Request) -> Response:
        """Serve a file of a run's results or of a comparison."""
        kind, name, file = (request.path_params[part] for part in ("kind", "name", "file"))
        if kind not in ("runs", "comparisons"):
            raise HTTPException(404)
        folder = folder_of(site.store, kind, name)
        answer = folder and answer_with(site.store, folder, file)
        if not answer:
            raise HTTPException(404)
        return answer

    return [shows("/runs/{name}", show), shows("/{kind}/{name}/{file:path}", file)]


def _findings(site: Site, line: RunLine) -> dict[str, Any]:
    """Return a run's answers to the questions, its board by metric, and its worst problems; empty without results."""
    run = site.store.run(line.id)
    nothing: dict[str, Any] = {"questions": (), "board": {}, "problems": [], "n_problems": 0}
    if not line.has_report:
        return nothing
    try:
        board, problems, total = board_and_problems(site.store, run, MOST_PROBLEMS)
    except LeadlineError:  # another version made it, or its results were dropped: the record is all there is
        return nothing
    by_metric: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in board:
        if cell["is_primary"]:
            by_metric.setdefault((cell["evaluator"], cell["metric"], cell["metric_name"]), {})[cell["model"]] = cell
    return {"questions": answers_of(run.read()), "board": by_metric, "problems": problems, "n_problems": total}
