"""Prefect for tests, away from the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.flows.prefect.ephemeral import TemporaryServer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """This test's PREFECT_HOME."""
    return tmp_path / "prefect"


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of processes that share one Prefect server, for tests that run several flows."""
    home = tmp_path_factory.mktemp("shared") / "prefect"
    with TemporaryServer(os.environ | {"PREFECT_HOME": str(home)}) as server:
        yield {"PREFECT_HOME": str(home), "PREFECT_API_URL": server.wait()}


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command do what it does before a server starts, and fail where it would then need one."""

    def refuse(*_: object, first: object, **__: object) -> object:
        assert callable(first)
        first()
        raise AssertionError("a server would have been started")

    monkeypatch.setattr("leadline.flows.prefect.resolve.ensure_api", refuse)
