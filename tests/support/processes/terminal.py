"""A terminal for tests: ``leadline`` as a process of its own, which can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Terminal:
    """A folder in which commands are run, on a Prefect server that is up.

    Args:
        folder: The working directory.
        api: Variables that name the server.
        variables: Further variables of the environment.
    """

    def __init__(self, folder: Path, api: dict[str, str], **variables: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self.environment = (
            kept | api | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())} | variables
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "leadline.cli.main", *arguments], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=200)
        return process.returncode, out, err
