"""In which order a chunk asks its evaluators: those that share weights together, so that a model is loaded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import pytest

from evaluators import registry
from evaluators.base import Evaluator, Spec
from evaluators.metrics import Metric
from evaluators.models.refs import ModelRef
from evaluators.toolbox import Settings, Toolbox
from evaluators.types import Field, Row, RowScore
from tasks.db import open_run
from tasks.gather import register_jobs
from tasks.jobs import make_jobs, write_jobs
from tasks.plan import cut, plan
from tasks.score import BATCH_ROWS, Chunk, score_chunk
from tasks.store import Store
from tests.support.dataset import make_dataset


class Weighty(Evaluator):
    """Notes which weights it would have run on how many rows."""

    source: ClassVar[str]
    used: ClassVar[list[tuple[str, int]]] = []

    def models(self, tools: Toolbox) -> tuple[ModelRef, ...]:
        return (ModelRef("classifier", self.source, "main"),)

    def identity(self, tools: Toolbox) -> dict[str, object]:
        return {"evaluator": self.spec.id}

    def score(self, rows: Sequence[Row], tools: Toolbox) -> list[RowScore]:
        self.used.append((self.source, len(rows)))
        return [RowScore({"m": 1.0})] * len(rows)


def weighty(name: str, source: str) -> type[Weighty]:
    spec = Spec(
        id=f"test.{name}",
        name=name,
        family="generation",
        inputs=(Field.ACTUAL_ANSWER,),
        metrics=(Metric("m", "M", higher_is_better=True, primary=True),),
        lane="gpu",
    )
    return type(name, (Weighty,), {"spec": spec, "source": source, "__doc__": "Uses weights."})


@pytest.fixture
def kinds() -> Iterator[list[type[Weighty]]]:
    registry.all_evaluators()
    made = [weighty("a", "large"), weighty("b", "small"), weighty("c", "large"), weighty("d", "small")]
    for kind in made:
        registry.register(kind)
    Weighty.used.clear()
    yield made
    for kind in made:
        registry._registered.pop(kind.spec.id)


def test_evaluators_that_share_weights_run_together_over_all_rows_of_a_chunk(
    kinds: list[type[Weighty]], tmp_path: Path
) -> None:
    rows = BATCH_ROWS["gpu"] + 10
    store = Store.open(tmp_path)
    dataset = make_dataset(store, [{"case": f"c{n}", "model": "m", "answer": f"answer {n}"} for n in range(rows)])
    jobs = make_jobs([kind() for kind in kinds], Settings())
    run = store.new_run()
    run.update({"dataset": dataset})
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, jobs))
        windows = cut(connection, jobs, run.plan, processes=1)
    write_jobs(run.plan / "jobs.json", jobs, Settings())
    for window in windows:
        Weighty.used.clear()
        chunk = Chunk(store=str(store.root), run=run.id, dataset=dataset, **asdict(window))
        assert score_chunk(chunk).scored == 4 * window.rows
        in_turn = [source for source, _ in groupby(Weighty.used, key=lambda use: use[0])]
        assert in_turn == ["large", "small"], "each model is loaded once, however many batches the chunk has"
        assert sum(count for _, count in Weighty.used) == 4 * window.rows
