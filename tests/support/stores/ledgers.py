"""Every kind of database that a ledger may be in."""

from __future__ import annotations

from pathlib import Path

import pytest

Place = Path | str


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.postgres])])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database: a file, or an address in PostgreSQL."""
    if request.param == "sqlite":
        return tmp_path / "ledger" / "ledger.sqlite"
    return str(request.getfixturevalue("postgres_url"))


def named(text: str) -> Place:
    """Return the place that a command names."""
    return text if "://" in text else Path(text)
