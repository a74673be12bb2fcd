"""Addresses of reports for a browser: those of the reading page where there is one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from leadline.evaluators.ground import from_home
from leadline.tasks.store.store import DEFAULT_STORE, STORE_VARIABLE, Run, Store

UI_VARIABLE: Final = "LEADLINE_UI_URL"

_log = logging.getLogger(__name__)


def ui_address() -> str:
    """Return the address of the reading page, ``$LEADLINE_UI_URL`` without a slash at its end, or ""."""
    given = os.environ.get(UI_VARIABLE, "").strip().rstrip("/")
    if not given:
        return ""
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        _log.warning("%s is no address http://HOST:PORT of `leadline ui`, and is not used.", UI_VARIABLE)
        return ""
    return given


def run_link(store: Store, run: Run, report: Path | None = None) -> str:
    """Return the address of a run's report for a browser: of the reading page, else in the bucket, else of the file.

    Args:
        report: Where the report is, if it is in no bucket.
    """
    if (base := ui_address()) and _is_shown(store):
        return f"{base}/runs/{quote(run.id)}/report.html"
    if store.remote:
        return run.report
    return (report or run.results / "report.html").absolute().as_uri()


def comparison_link(store: Store, identifier: str, report: Path) -> str:
    """Return the address of a comparison's report for a browser."""
    kept = store.root / "comparisons" / identifier / report.name
    if (base := ui_address()) and _is_shown(store) and kept.exists():
        return f"{base}/comparisons/{quote(identifier)}/{quote(report.name)}"
    return report.absolute().as_uri()


def _is_shown(store: Store) -> bool:
    """Return whether the reading page shows this store: the one that this process uses unless told otherwise."""
    usual = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    if "://" in usual:
        return store.location == usual.rstrip("/")
    return store.location == str(from_home(usual).absolute())
