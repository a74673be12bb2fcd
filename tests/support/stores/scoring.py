"""A planned run of evaluators that a test made up, ready to be scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from leadline.evaluators.core import Evaluator, registry
from leadline.evaluators.settings import Settings
from leadline.tasks.analyse.gather import register_jobs
from leadline.tasks.db import open_run
from leadline.tasks.plan.jobs import Chunk, cut, make_jobs, write_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.dataset import make_dataset


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
        register_jobs(connection, plan(connection, store, jobs), load_policy("sonar"))
        chunks = cut(connection, jobs, store, run, processes=processes)
    write_jobs(run.plan / "jobs.json", jobs, Settings())
    return run, list(chunks)
