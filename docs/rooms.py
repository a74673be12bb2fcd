"""The rooms and the order of their folders: a test holds it, and the page on the architecture prints it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

ORDER: Final = {
    "evaluators": "ground data settings text models judge_client core judge retrieval generation summarization agent "
    "conversation citations classification code fairness matching pairwise performance privacy robustness structured "
    "style vision",
    "tasks": "ground store db ledger statistics policy runs load collect perturb generate plan score analyse stopping "
    "judges compare publish",
    "flows": "shared prefect command dispatch certify_judges check_judges improve_judge sample_labels evaluate collect "
    "compare rescore perturb generate model_version check_version served deploy",
    "plugins": "http_server ops webhooks ci dask databricks documents formats mcp rgb sonar traces ui",
    "leadline": "testing api mlflow inspect pytest_plugin cli",
}
"""Each room's folders and modules from the ground up: each imports those before it; other modules may import all."""


def room_tables() -> str:
    """Return for each room a table of its parts, from the ground up, with what their docstrings say first."""
    parts = ["<!-- rooms: written by make docs from the folders' docstrings -->"]
    for room, folders in ORDER.items():
        known = [path for name in folders.split() for path in (ROOT / room / name, ROOT / room / f"{name}.py")]
        lines = [f"| `{_shown(path)}` | {_said(path)} |" for path in known if _source(path).exists()]
        parts += [f"### {room}/", "\n".join(["| part | |", "| --- | --- |", *lines])]
    return "\n\n".join([*parts, "<!-- end of rooms -->"])


def _shown(part: Path) -> str:
    return f"{part.relative_to(ROOT)}{'/' if part.is_dir() else ''}"


def _source(part: Path) -> Path:
    return part / "__init__.py" if part.is_dir() else part


def _said(part: Path) -> str:
    """Return the first sentence of the docstring of a package or module, as Markdown."""
    text = ast.get_docstring(ast.parse(_source(part).read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("``", "`")
    return first.partition(" See `")[0]
