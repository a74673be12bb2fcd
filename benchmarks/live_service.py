"""The service with a scripted judge, started for a benchmark in a folder of its own, and what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import httpx
import psycopg
import yaml

from benchmarks.endpoint import Remote
from benchmarks.endpoint import running as endpoint
from leadline.deployments.processes import dying_with_us
from leadline.deployments.service import running

START_S: Final = 300.0
OUTAGE_S: Final = 300.0
"""Longest time for which Prefect's server may be down."""

ENDED: Final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class LiveService:
    """A running service.

    Attributes:
        folder: Where it keeps everything, and where its commands and runs start.
        judge: The judge's endpoint.
        environment: Of a shell that talks to it.
        api: Prefect's API.
        supervisor: The process that started it.
    """

    folder: Path
    judge: Remote
    environment: Mapping[str, str]
    api: str
    supervisor: int

    @property
    def store(self) -> Path:
        """The folder of the store."""
        return self.folder / "store"

    def leadline(self, *arguments: str) -> str:
        """Run a command and return what it says."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "leadline.cli.main", *arguments],
            env=dict(self.environment), cwd=self.folder, capture_output=True, text=True, timeout=OUTAGE_S,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"leadline {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what Prefect's API replies; it is asked again while it is down."""
        deadline = time.monotonic() + OUTAGE_S
        while True:
            try:
                reply = httpx.request(method, f"{self.api}{path}", json=body, trust_env=False, timeout=60)
                reply.raise_for_status()
                return reply.json() if reply.content else None
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(5)

    def found(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return everything that a filter of Prefect's API finds, page by page."""
        every: list[dict[str, Any]] = []
        while True:
            page = self.ask("POST", path, {**body, "limit": 200, "offset": len(every)})
            every += page
            if len(page) < 200:
                return every

    def runs_of(self, deployment: str, *, scheduled: bool = False) -> list[dict[str, Any]]:
        """Return the flow runs of a deployment.

        Args:
            deployment: Its full name.
            scheduled: Also those that wait for their time.
        """
        known = self.ask("GET", f"/deployments/name/{deployment}")
        runs = self.found("/flow_runs/filter", {"deployments": {"id": {"any_": [known["id"]]}}})
        return [run for run in runs if scheduled or run["state_name"] != "Scheduled"]

    def config(self, dataset: Path, name: str, evaluators: tuple[str, ...]) -> dict[str, Any]:
        """Return what a run is asked for: its gate fails on problems of high severity."""
        return {
            "dataset": str(dataset),
            "name": name,
            "evaluators": list(evaluators),
            "fail_on": "high",
            "judges": {"model": "openai/scripted", "api_base": self.judge.url},
        }

    def deploy(self, **evaluate: Any) -> None:
        """Deploy Leadline's own file with other settings of ``evaluate``."""
        content = yaml.safe_load(self.leadline("service", "deploy", "--print"))
        next(one for one in content["deployments"] if one["name"] == "evaluate").update(evaluate)
        file = self.folder / "deployed.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        self.leadline("service", "deploy", "--file", str(file))


@contextmanager
def serving(latency: float = 0.3) -> Iterator[LiveService]:
    """Start the service, and end it.

    Args:
        latency: Seconds that the judge takes for a reply.
    """
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-bench-", ignore_cleanup_errors=True))
        folder = Path(name)
        judge = stack.enter_context(endpoint(latency, 64))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LEADLINE_", "PREFECT_"))}
        own = {
            "LEADLINE_STORE": str(folder / "store"),
            "XDG_STATE_HOME": str(folder / "state"),
            "OPENAI_API_KEY": "sk-scripted",
            "PYTHONPATH": str(Path.cwd()),
        }
        host = judge.url.removeprefix("http://").removesuffix("/v1")
        (folder / "leadline.toml").write_text(f'[service]\nallowed_hosts = ["{host}"]\n', encoding="utf-8")
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-m", "leadline.deployments.service", "start", "--folder", name, "--port", "0"],
            env=kept | own, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=dying_with_us(signal.SIGTERM),
        )  # fmt: skip
        stack.callback(process.wait, 120)
        stack.callback(process.terminate)
        deadline = time.monotonic() + START_S
        while not (record := running(folder) or {}).get("api"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((folder / "log").read_text())
            time.sleep(0.5)
        lines = (folder / "env").read_text().splitlines()
        shell = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        environment = kept | own | {name: value.strip("'") for name, value in shell.items()}
        yield LiveService(folder, judge, environment, str(record["api"]), process.pid)


def repeated_calls(service: LiveService) -> list[str]:
    """Print how many calls the judge got for how many answers; return what is wrong with that."""
    calls = service.judge.stats().calls
    with psycopg.connect(service.environment["LEADLINE_LEDGER"]) as ledger:
        answered, lost = (
            int((ledger.execute(query).fetchone() or (0,))[0])
            for query in (
                "SELECT count(*) FROM calls WHERE text IS NOT NULL",
                "SELECT count(*) FROM asks WHERE state <> 'answered'",
            )
        )
    print(f"Judge     {calls} calls for {answered} answers; {lost} calls have no end on record")
    return [f"{calls - answered} calls repeated, {lost} lost"] if calls - answered > lost else []


def repeated_scores(service: LiveService) -> list[str]:
    """Print how many row scores are stored, and how many twice; return what is wrong with that."""
    total = twice = differing = 0
    for folder in (service.store / "scores").glob("*/*"):
        files = [str(path) for path in folder.glob("[!.]*.parquet")]
        if not files:
            continue
        rows = duckdb.execute(
            "SELECT key, trial, count(*), count(DISTINCT hash(*COLUMNS('^m:'))) FROM read_parquet($1) GROUP BY ALL",
            [files],
        ).fetchall()
        total += len(rows)
        twice += sum(count - 1 for *_, count, _ in rows)
        differing += sum(values > 1 for *_, values in rows)
    print(f"Scores    {total} of rows, {twice} of them computed twice, {differing} of these differ")
    return [f"{differing} scores computed twice differ"] if differing else []


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def counts(counter: Mapping[str, int]) -> str:
    """Return counts in words, the largest first."""
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items(), key=lambda each: -each[1])) or "none"
