"""Runs the blocks of one page in order in this process, which is its own, in the current folder."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from leadline.cli.main import run


def run_page(steps: list[dict[str, Any]]) -> None:
    """Run the steps, and leave with the first that fails."""
    page = ModuleType("page")
    sys.modules["page"] = page
    for step in steps:
        where = step["where"]
        print(f"--- {where}: {' '.join(step.get('command', ()))}", flush=True)
        if "file" in step:
            file = Path(step["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step["text"], encoding="utf-8")
            if step["language"] == "python":
                _import(file)
        elif "command" in step:
            code = run(step["command"])
            if code not in ((2,) if step["fails"] else (0, 1)):
                raise SystemExit(f"{where}: leadline {' '.join(step['command'])} left with {code}")
        else:
            exec(compile(step["text"], where, "exec"), vars(page))


def _import(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    run_page(json.load(sys.stdin))
