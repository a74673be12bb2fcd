"""Adding a case, or the cases of a search, to a suite of the project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.ui.pages.cases import FILTERS, cases_found
from leadline.plugins.ui.site import MOST_QUERY, PersonRole, Site, does, noted
from leadline.tasks.collect.suite_file import MOST_ADDED, add_to_suite


def routes(site: Site) -> list[Route]:
    """Return the route that adds."""

    def add(request: Request, form: Mapping[str, str]) -> Response:
        """Add what a form names: a case of a run, or else all that a search finds, as far as it may be at once."""
        file = suite_of(form)
        if key := form.get("case", ""):
            wanted, total = {site.run(form.get("run", "")).id: [key]}, 1
        else:
            search = {name: form.get(name, "")[:MOST_QUERY] for name in FILTERS}
            wanted, total = cases_found(site, search, MOST_ADDED)
        done = add_to_suite(site.store, wanted, file)
        noted(request, "added to a suite", suite=str(file), cases=len(done.added), runs=", ".join(wanted))
        return site.page(request, "suite.html", done=done, total=total, most=MOST_ADDED)

    return [does("/suites", PersonRole.EDITOR, add)]


def suite_of(form: Mapping[str, str]) -> Path:
    """Return the file that a form names.

    Raises:
        UsageError: It names none, or one that requests from outside may not.
    """
    from leadline.flows.prefect.outside_requests import allowed

    name = form.get("suite", "").strip()
    if not name or "\0" in name:
        raise UsageError("No suite is named.", hint="Name a file of the project.", code=ErrorCode.CONFIG_OPTION)
    allowed().check_file("suite", name)
    return Path(name)
