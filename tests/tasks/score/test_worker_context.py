"""What the chunks of a run share in one process, and what runs do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from leadline.evaluators.settings import Settings
from leadline.tasks.score.chunk import context_for
from leadline.tasks.store.store import Store


def test_a_condition_that_hung_in_one_run_is_tried_in_the_next(tmp_path: Path) -> None:
    store, settings = Store.open(tmp_path), Settings()
    first, second = store.new_run(), store.new_run()
    for _ in range(3):
        with suppress(TimeoutError), context_for(store, first, settings, "cpu").regex_budget.waiting("slow"):
            raise TimeoutError
    with (
        pytest.raises(TimeoutError, match="not tried again"),
        context_for(store, first, settings, "cpu").regex_budget.waiting("slow"),
    ):
        pytest.fail("the condition was tried again")
    with context_for(store, second, settings, "cpu").regex_budget.waiting("slow") as seconds:
        assert seconds == 2.0


def test_runs_share_what_is_in_memory_of_the_store(tmp_path: Path) -> None:
    store, settings = Store.open(tmp_path), Settings()
    first, second = (context_for(store, store.new_run(), settings, lane) for lane in ("cpu", "gpu"))
    assert first.vectors is second.vectors


def test_chunks_of_a_run_share_the_clients_of_their_judges(tmp_path: Path) -> None:
    store, settings = Store.open(tmp_path), Settings()
    run = store.new_run()
    first, second = (context_for(store, run, settings, "judge") for _ in range(2))
    other = context_for(store, store.new_run(), settings, "judge")
    assert first._clients is second._clients
    assert first._clients is not other._clients
