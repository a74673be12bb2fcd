"""The audit log of a store, for editors."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.plugins.ui.site import Site, number, pager, person_of, shows

PAGE: Final = 50
"""Entries of one page."""


def routes(site: Site) -> list[Route]:
    """Return the page of the audit log."""

    def show(request: Request) -> Response:
        if not person_of(request).may_edit:
            raise HTTPException(403, "That needs the role editor.")
        page = max(1, number(request.query_params.get("page", "")))
        entries, total = site.audit.entries((page - 1) * PAGE, PAGE)
        return site.page(request, "audit.html", entries=entries, pager=pager(request, total, PAGE))

    return [shows("/audit", show)]
