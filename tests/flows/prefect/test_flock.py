"""Locks that children inherit, and a system that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground.errors import LeadlineError
from leadline.flows.prefect import background, flock
from leadline.flows.prefect.choice import ServerUse, chosen_server


def test_a_lock_is_held_by_one_or_shared_by_many(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with file.open("ab") as first, file.open("ab") as second, file.open("ab") as third:
        assert flock.taken(first, shared=True)
        assert flock.taken(second, shared=True)
        assert not flock.taken(third)
        first.close()
        second.close()
        assert flock.taken(third)


def test_a_system_without_such_locks_keeps_no_server_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    monkeypatch.setattr(flock, "AVAILABLE", False)
    assert chosen_server().use is ServerUse.NONE
    assert background.running() is None
    with pytest.raises(LeadlineError, match=r"no file locks .* --server none"):
        background.launch(idle_minutes=None)
