"""The rooms and the order of their folders: a test holds it, and the page on the architecture prints it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

ORDER: Final = {
    "evaluators": "ground data settings text models judge_client core judge retrieval generation summarization agent "
    "citations classification code fairness matching pairwise performance privacy robustness structured style vision",
    "tasks": "ground store db ledger statistics policy runs load collect perturb generate plan score analyse stopping "
    "judges compare publish",
    "flows": "shared prefect command dispatch judges evaluate collect compare perturb generate model_version deploy",
    "plugins": "ops webhooks ci dask databricks mcp rgb sonar ui",
    "leadline": "testing api bridges pytest_plugin cli",
}
"""Each room's folders and modules from the ground up: each imports those before it; other modules may import all."""


def room_tables() -> str:
    """Return for each room a table of its folders, from the ground up, with what their docstrings say first."""
    parts = ["<!-- rooms: written by make docs from the folders' docstrings -->"]
    for room, folders in ORDER.items():
        known = [name for name in folders.split() if (ROOT / room / name).is_dir()]
        lines = [f"| `{room}/{name}/` | {_said(ROOT / room / name)} |" for name in known]
        parts += [f"### {room}/", "\n".join(["| folder | |", "| --- | --- |", *lines])]
    return "\n\n".join([*parts, "<!-- end of rooms -->"])


def _said(folder: Path) -> str:
    """Return the first sentence of a package's docstring, as Markdown."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("``", "`")
    return first.partition(" See `")[0]
