"""Judge calls: those that were shown an answer, and one with its prompt, its raw reply and what was read from it."""

from __future__ import annotations

import re
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import UsageError
from leadline.plugins.ui.site import Site, shows
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.runs.show import case as all_of_case

MOST_CALLS: Final = 80
"""Calls about an answer that are listed."""

LOOKED_FOR: Final = 80
"""Characters of an answer, of its longest line, by which calls about it are found."""

_LINE_OR_QUOTE: Final = re.compile(r"[\n\r\t\"\\]")


def routes(site: Site) -> list[Route]:
    """Return the pages of judge calls."""

    def about(request: Request) -> Response:
        line = site.run(request.path_params["name"])
        key, model = (request.query_params.get(name, "")[:2000] for name in ("case", "model"))
        case = all_of_case(site.store, site.store.run(line.id), key)
        answer = next((one for one in case["answers"] if one["model"] == model), None)
        if answer is None:
            raise HTTPException(404)
        wanted = stretch(answer["actual_answer"] or "") or stretch(case["question"] or "")
        calls = read_ledger(site.store).mentioning(wanted, MOST_CALLS) if wanted else []
        shown = f"{wanted}…" if len(wanted) == LOOKED_FOR else wanted
        return site.page(request, "calls.html", run=line, case=case, model=model, calls=calls, wanted=shown)

    def call(request: Request) -> Response:
        try:
            found = read_ledger(site.store).one(request.path_params["digest"])
        except UsageError:
            raise HTTPException(404) from None
        return site.page(request, "call.html", call=found)

    return [shows("/runs/{name}/calls", about), shows("/calls/{digest}", call)]


def stretch(text: str) -> str:
    """Return a stretch of a text that stands in a prompt as it is: lines may be indented there, quotes escaped."""
    return max(_LINE_OR_QUOTE.split(text), key=len).strip()[:LOOKED_FOR]
