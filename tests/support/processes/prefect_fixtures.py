"""Prefect for tests, away from the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.prefect_api import prefect_api


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """This test's PREFECT_HOME."""
    return tmp_path / "prefect"


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of processes that share one Prefect server, for tests that run several flows."""
    home = tmp_path_factory.mktemp("shared") / "prefect"
    with prefect_api(home) as api:
        yield {"PREFECT_HOME": str(home), "PREFECT_API_URL": api}


@pytest.fixture
def api_url(api: dict[str, str]) -> Iterator[str]:
    """The address of the shared server, which Prefect in this process uses for the test."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api["PREFECT_API_URL"]}):
        yield api["PREFECT_API_URL"]


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command do what it does before it runs, and fail where it would then look for a server."""

    def refuse(*_: object) -> object:
        raise AssertionError("a server would have been looked for")

    monkeypatch.setattr("leadline.flows.prefect.server.ensure_api", refuse)
