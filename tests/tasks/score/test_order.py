"""In which order a chunk asks its evaluators: those that share weights together, so that a model is loaded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import pytest

from leadline.evaluators.core import EvalContext, Evaluator, Metric, Spec
from leadline.evaluators.data import Row, RowField, RowScore
from leadline.evaluators.ground import ModelRef
from leadline.tasks.score.chunk import BATCH_ROWS, score_chunk
from leadline.tasks.store.store import Store
from tests.support.stores.scoring import planned, registered


class Weighty(Evaluator):
    """Notes which weights it would have run on how many rows."""

    source: ClassVar[str]
    used: ClassVar[list[tuple[str, int]]] = []

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        return (ModelRef("classifier", self.source, "main"),)

    def identity(self, ctx: EvalContext) -> dict[str, object]:
        return {"evaluator": self.spec.id}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        self.used.append((self.source, len(rows)))
        return [RowScore({"m": 1.0})] * len(rows)


def weighty(name: str, source: str) -> type[Weighty]:
    spec = Spec(
        id=f"test.{name}",
        name=name,
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(Metric("m", "M", higher_is_better=True, primary=True),),
        lane="gpu",
    )
    return type(name, (Weighty,), {"spec": spec, "source": source, "__doc__": "Uses weights."})


@pytest.fixture
def kinds() -> Iterator[list[type[Weighty]]]:
    made = [weighty("a", "large"), weighty("b", "small"), weighty("c", "large"), weighty("d", "small")]
    with registered(*made):
        yield made


def test_evaluators_that_share_weights_run_together_over_all_rows_of_a_chunk(
    kinds: list[type[Weighty]], tmp_path: Path
) -> None:
    rows = BATCH_ROWS["gpu"] + 10
    store = Store.open(tmp_path)
    answers = [{"case": f"c{n}", "model": "m", "answer": f"answer {n}"} for n in range(rows)]
    _, chunks = planned(store, [kind() for kind in kinds], answers)
    for chunk in chunks:
        Weighty.used.clear()
        assert score_chunk(chunk).scored == 4 * chunk.rows
        in_turn = [source for source, _ in groupby(Weighty.used, key=lambda use: use[0])]
        assert in_turn == ["large", "small"], "each model is loaded once, however many batches the chunk has"
        assert sum(count for _, count in Weighty.used) == 4 * chunk.rows
