"""A terminal for tests: ``leadline`` as a process of its own, which can be killed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import SILENT, JudgeEndpoint
from tests.support.processes.waiting import kill_once


class Terminal:
    """A folder in which commands are run.

    Args:
        folder: The working directory.
        api: Variables that name a Prefect server that is up; none for commands that need none.
        variables: Further variables of the environment.
    """

    def __init__(self, folder: Path, api: Mapping[str, str] | None = None, **variables: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEADLINE_", "PREFECT_"))}
        own = {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path.cwd())}
        self.environment = kept | dict(api or {}) | own | variables

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "leadline.cli.main", *arguments], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command, and see to it that it leaves with this code."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=200)
        assert process.returncode == code, f"leadline {shlex.join(arguments)}: {process.returncode}\n{out}{err}"
        return subprocess.CompletedProcess(process.args, code, out, err)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Return what a command prints for programs."""
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def kill_after(self, endpoint: JudgeEndpoint, answers: int, *arguments: str) -> None:
        """Run a command, and kill it once a judge has given so many answers in all.

        The judge is silent from then on, so that no run ends before a slow test has killed it.
        """
        endpoint.fault = lambda _: SILENT if len(endpoint.answered) >= answers else None
        kill_once(lambda: len(endpoint.answered) >= answers, self.start(*arguments))
        endpoint.fault = lambda _: None

    def store(self, name: str = "store") -> Store:
        return Store.open(self.folder / name)
