"""Every kind of database that a ledger may be in, and calls that begin in one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.calls import BudgetSpent, Charge
from leadline.tasks.ledger.ledger import DatabaseLedger
from tests.support.judges.scripted_judge import question

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


async def admitted(ledger: DatabaseLedger, names: list[str], usd: float | None = 1.0) -> list[str]:
    """Begin calls at once; returns those that the budget allows."""
    found = await asyncio.gather(
        *(ledger.intend(question(name), Charge(usd)) for name in names), return_exceptions=True
    )
    assert all(error is None or isinstance(error, BudgetSpent) for error in found)
    return [name for name, error in zip(names, found, strict=True) if error is None]
