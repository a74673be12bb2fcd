"""The layout of the results tree: its folders and media types.

A folder of an evaluator has a folder for each explanation, and in it a folder and a ``.meta`` file for each media type.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import jsonio

JSON: Final = "application/json"
CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"
MARKDOWN: Final = "text/markdown"
LEADERBOARD_MARKDOWN: Final = "application/vnd.h2oai-evalstudio-leaderboard.markdown"
HTML: Final = "text/html"
ZIP: Final = "application/zip"

_EXTENSIONS: Final = {
    JSON: "json",
    CSV: "csv",
    PARQUET: "parquet",
    MARKDOWN: "md",
    LEADERBOARD_MARKDOWN: "md",
    HTML: "html",
    ZIP: "zip",
}


def explanation(folder: Path, kind: str, mime: str) -> Path:
    """Return the path of an explanation's file, after making its folder and its ``.meta`` file.

    Args:
        folder: The evaluator's folder.
        kind: The explanation, e.g. ``global-llm-eval-results``.
        mime: The media type.
    """
    place = folder / re.sub(r"[^0-9A-Za-z]", "_", kind) / re.sub(r"[^0-9A-Za-z]", "_", mime)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"explanation.{_EXTENSIONS[mime]}"
    jsonio.write(
        place.with_name(f"{place.name}.meta"),
        {"explanation_type": kind, "mime": mime, "file": f"{place.name}/{path.name}"},
    )
    return path
