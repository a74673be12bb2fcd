"""Prefect for tests: databases that are ready, away from the user's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.flows.prefect_server.ephemeral import TemporaryServer
from leadline.tasks.store.locks import locked


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PREFECT_HOME whose database is ready: making it takes a server several seconds, so it is made once for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # the folder of all test processes
    home = shared / "migrated"
    with locked(shared / "migrated.lock"):
        if not home.exists():
            unfinished = tmp_path_factory.mktemp("migrating")
            with TemporaryServer(os.environ | {"PREFECT_HOME": str(unfinished)}) as server:
                server.wait()
            unfinished.rename(home)
    return home


@pytest.fixture
def home(migrated: Path, tmp_path: Path) -> Path:
    """This test's PREFECT_HOME, with a database that is ready."""
    return Path(shutil.copytree(migrated, tmp_path / "prefect"))


@pytest.fixture(scope="session")
def api(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of processes that share one Prefect server, for tests that run several flows."""
    home = Path(shutil.copytree(migrated, tmp_path_factory.mktemp("shared") / "prefect"))
    with TemporaryServer(os.environ | {"PREFECT_HOME": str(home)}) as server:
        yield {"PREFECT_HOME": str(home), "PREFECT_API_URL": server.wait()}


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command do what it does before a server starts, and fail where it would then need one."""

    def refuse(*_: object, first: object, **__: object) -> object:
        assert callable(first)
        first()
        raise AssertionError("a server would have been started")

    monkeypatch.setattr("leadline.flows.prefect_server.resolve.ensure_api", refuse)
