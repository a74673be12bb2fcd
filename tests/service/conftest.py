"""One service for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes.service import LiveService, serving


@pytest.fixture(scope="session")
def service() -> Iterator[LiveService]:
    """The service with a worker for flows and one for the cpu lane."""
    yield from serving({"flows": 1, "cpu": 1})
