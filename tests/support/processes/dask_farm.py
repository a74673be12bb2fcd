"""A Dask scheduler and workers as processes that tests can kill.

``with DaskFarm(folder) as farm: farm.start_worker("judge")``. Everything is on loopback and gone when the block ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.processes.descendants import kill_below
from tests.support.processes.waiting import eventually

ROOT: Final = Path(__file__).parents[3]


class DaskFarm:
    """A scheduler, and the workers that a test starts.

    Args:
        folder: For logs and the workers' working directories.
        environment: Added to everybody's environment.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self._environment = kept | {"PYTHONPATH": str(ROOT)} | dict(environment or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""

    def __enter__(self) -> Self:
        scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self._start("scheduler", scheduler)
        found = r"Scheduler at:\s+tcp://(\S+)"
        said = eventually(lambda: re.search(found, self.log("scheduler")), 60, "a scheduler")
        self.address = f"dask://{said[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill_workers()
        if "scheduler" in self._processes:
            self.kill("scheduler")

    def _start(self, name: str, arguments: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *arguments], env=self._environment, cwd=self.folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start_workers(self, *lanes: str, processes: int = 1) -> list[str]:
        """Start workers side by side, wait until they serve, and return their names."""
        names = []
        for lane in lanes:
            names.append(f"{lane}-{len(self._processes)}")
            command = ["-m", "leadline.cli.main", "service", "dask-worker", self.address, "--lane", lane]
            self._start(names[-1], [*command, "--processes", str(processes)])
        for name in names:
            eventually(lambda name=name: "Serves" in self.log(name), 60, f"{name} at work")
        return names

    def kill_children(self, name: str) -> None:
        """``kill -9`` the processes that score, which the worker starts anew."""
        kill_below(self._processes[name])

    def kill(self, name: str) -> None:
        """``kill -9`` the scheduler, or a worker with all its processes."""
        process = self._processes.pop(name)
        kill_below(process, itself=True)

    def kill_workers(self) -> None:
        """``kill -9`` all workers with all their processes."""
        for name in self._processes.keys() - {"scheduler"}:
            self.kill(name)

    def stop(self, name: str) -> int:
        """Send SIGTERM and return the exit code."""
        process = self._processes.pop(name)
        process.terminate()
        return process.wait(timeout=60)
