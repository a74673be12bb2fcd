"""Files of results and comparisons, served to browsers: each in an origin of its own, and nothing beside them.

Files come from a folder or a bucket.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.responses import FileResponse, Response

from leadline.evaluators.ground import UsageError
from leadline.tasks.store.store import Store

MOST_FILES: Final = 60
"""Files that a run's page names."""

REPORT: Final = "report.html"

_PART: Final = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,199}")
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_INLINE: Final = {
    ".html": "text/html; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".xml": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""What a browser shows; all else is saved."""

_SANDBOX: Final = "sandbox allow-popups allow-popups-to-escape-sandbox allow-downloads"
_SILENT: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
PLAIN_POLICY: Final = f"{_SILENT}; {_SANDBOX}"
"""Policy of a file: an origin of its own, no script, no network."""

REPORT_POLICY: Final = f"{_SILENT}; script-src 'unsafe-inline'; {_SANDBOX} allow-scripts"
"""Policy of a report, whose own policy, in the page, allows its own script by its hash and no other."""

PURPOSES: Final = {
    REPORT: "the report, for people",
    "report.md": "the report as Markdown, for a pull request",
    "report.json": "the report as data",
    "junit.xml": "the gate as tests, for CI",
    "problems.csv": "problems, worst first",
    "aggregates.csv": "each metric of each model",
    "slices.csv": "each metric by slice",
    "scores.parquet": "every score",
    "scores.csv": "every score",
    "flips.csv": "verdicts that a perturbation flips",
}


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a run, for a list.

    Attributes:
        size: Its size in words.
        purpose: What it is, where that is known.
    """

    name: str
    size: str
    purpose: str


def folder_of(store: Store, kind: str, name: str) -> Path | None:
    """Return the folder of what is served of a run or a comparison; ``None`` where it cannot be one.

    Args:
        kind: ``runs`` or ``comparisons``.
        name: Its id.
    """
    if not _ID.fullmatch(name):
        return None
    if kind == "comparisons":
        return store.root / "comparisons" / name
    try:
        return store.run(name).results
    except UsageError:
        return None


def answer_with(store: Store, folder: Path, name: str) -> Response | None:
    """Return a file as an answer; ``None`` where there is none of this name.

    Args:
        folder: The folder, of which nothing outside is read.
        name: Path of the file below it, as it came from outside.
    """
    parts = name.split("/")
    if len(parts) > 8 or not all(_PART.fullmatch(part) for part in parts):
        return None
    path = folder.joinpath(*parts)
    if store.remote:
        if not path.exists() and store.remote.bucket.version(path.relative_to(store.root).as_posix()) is None:
            return None
        store.remote.fetch_changed(path)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    if not real.is_relative_to(folder.resolve()) or not real.is_file():  # a link may lead elsewhere
        return None
    kind = _INLINE.get(path.suffix.lower())
    headers = {
        "Content-Security-Policy": REPORT_POLICY if parts[-1] == REPORT else PLAIN_POLICY,
        "Cache-Control": "private, no-cache",
    }
    return FileResponse(
        real,
        media_type=kind or "application/octet-stream",
        headers=headers,
        filename=parts[-1],
        content_disposition_type="inline" if kind else "attachment",
    )


def files_of(store: Store, folder: Path) -> list[ServedFile]:
    """Return the files at the top of a folder of results; the report comes first."""
    if store.remote:
        prefix = folder.relative_to(store.root).as_posix()
        there = store.remote.bucket.objects(prefix)
        sizes = {name.removeprefix(f"{prefix}/"): size for name, size in there.items()}
    elif folder.is_dir():
        sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    else:
        sizes = {}
    shown = [name for name in sizes if "/" not in name and _PART.fullmatch(name)]
    order = list(PURPOSES)
    shown.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    return [ServedFile(name, _in_words(sizes[name]), PURPOSES.get(name, "")) for name in shown[:MOST_FILES]]


def _in_words(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
