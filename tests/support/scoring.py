"""A planned run of evaluators that a test made up, ready to be scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from evaluators import registry
from evaluators.base import Evaluator
from evaluators.toolbox import Settings
from tasks.db import open_run
from tasks.gather import register_jobs
from tasks.jobs import make_jobs, write_jobs
from tasks.plan import cut, plan
from tasks.score import Chunk
from tasks.store import Run, Store
from tests.support.dataset import make_dataset


@contextmanager
def registered(*kinds: type[Evaluator]) -> Iterator[None]:
    """Let workers find evaluators by their ids."""
    registry.all_evaluators()
    for kind in kinds:
        registry.register(kind)
    try:
        yield
    finally:
        for kind in kinds:
            registry._registered.pop(kind.spec.id)


def planned(
    store: Store, evaluators: Sequence[Evaluator], answers: list[dict[str, Any]], *, processes: int = 1
) -> tuple[Run, list[Chunk]]:
    """Plan a run of registered evaluators, and return it with its chunks."""
    dataset = make_dataset(store, answers)
    jobs = make_jobs(evaluators, Settings())
    run = store.new_run()
    run.update({"dataset": dataset})
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, jobs))
        windows = cut(connection, jobs, run.plan, processes=processes)
    write_jobs(run.plan / "jobs.json", jobs, Settings())
    return run, [Chunk(store=str(store.root), run=run.id, dataset=dataset, **asdict(window)) for window in windows]
